// Which accesses of global memory are ordered, inside a CTA and between CTAs that communicate? A shadow of
// the bytes that kernels may write: who wrote and read each word last, by which proxy, and what a
// release of a word hands to those who acquire it. PTX ISA, "Memory Consistency Model": a release or a red
// that continues it, seen by an acquire, orders what came before; a fence makes weaker accesses count as
// such.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "device/emulator/knowledge.hpp"

namespace moe::device::emulator {

class Cta;
struct Thread;

/// How global memory is reached: ordinary loads and stores; instructions that other CTAs may race with (red,
/// st.release, ld.acquire, ld.volatile); copies of the asynchronous proxy.
enum class Via : std::uint8_t { ordinary, strong, copy };

/// An event of one CTA: component `component` of its clocks reached `clock`. A bulk store's clock is known
/// only once its thread has waited: then `bulk` is its number + 1.
struct Event {
  Clock clock = 0;
  std::uint16_t cta = 0, component = 0;
  std::uint32_t pc = 0, bulk = 0;
  Via via = Via::ordinary;
};

/// A 4-byte word, or bytes of one that threads access apart (16-bit and 8-bit elements) with their own past.
struct GlobalCell {
  Event write, read;
  std::uint32_t readers = 0;  // number of a set of reads that are not ordered; 0 = only `read`
  std::uint32_t next = 0;     // number of the cell of other bytes of the word, 0 = none
  std::uint8_t missing = 0;   // a bit a byte of the word that belongs to other cells
  bool written() const { return write.clock != 0; }
};

class GlobalOrder {
 public:
  void clear();
  /// The first cell of the word at address a; made when first used.
  GlobalCell& cell(std::uintptr_t a) {
    const std::uintptr_t page = a / kPageBytes;
    if (page != last_page_) find_page(page);
    return last_cells_[a % kPageBytes / 4];
  }
  GlobalCell* next(const GlobalCell& cell) { return cell.next ? &split_cells_[cell.next] : nullptr; }
  /// `bytes` of the cell, not all, get a cell of their own with the same past.
  GlobalCell& take_apart(GlobalCell& cell, std::uint8_t bytes);
  /// All bytes of the word have the past that its first cell says.
  void put_together(GlobalCell& word);
  void forget_reads(GlobalCell& cell);
  std::vector<Event>& readers(std::uint32_t number) { return sets_[number]; }
  std::uint32_t take_set();

  /// What an acquire of the word at `a` learns; null where nothing was released.
  Others released(std::uintptr_t a) const;
  /// `continues`: by a red, which adds to what was released before.
  void release(std::uintptr_t a, const Others& known, bool continues);
  /// A word in front of its last strong update: what it held, and what an acquire of that learns.
  struct Earlier {
    std::uint32_t value = 0;
    Others released;
  };
  void keep_earlier(std::uintptr_t a, std::uint32_t value) { earlier_[a / 4] = {value, released(a)}; }
  const Earlier* earlier(std::uintptr_t a) const {
    const auto it = earlier_.find(a / 4);
    return it == earlier_.end() ? nullptr : &it->second;
  }
  /// An ordinary store ends what was released.
  void overwrite(std::uintptr_t a, std::uint64_t bytes);

 private:
  static constexpr std::uintptr_t kPageBytes = 1024;
  void find_page(std::uintptr_t page);
  std::unordered_map<std::uintptr_t, std::unique_ptr<GlobalCell[]>> pages_;
  std::uintptr_t last_page_ = ~std::uintptr_t(0);
  GlobalCell* last_cells_ = nullptr;
  std::vector<std::vector<Event>> sets_{1};
  std::deque<GlobalCell> split_cells_{1};
  std::vector<std::uint32_t> free_sets_, free_cells_;
  std::unordered_map<std::uintptr_t, Others> released_;  // by 4-byte word
  std::unordered_map<std::uintptr_t, Earlier> earlier_;
};

// ---- accesses of the running thread (or of its copy), judged against what the cells remember
void order_access(Cta& c, std::uintptr_t a, std::uint64_t bytes, bool write, Via via, std::uint32_t pc);
/// A TMA or bulk load reads; it is over for those who know phase `phase` of mbarrier `bar`.
void order_copy_read(Cta& c, std::uintptr_t a, std::uint64_t bytes, std::uint32_t pc, int bar,
                     std::uint32_t phase);
/// Bulk store `number` writes; it is over for those who know the wait of its thread.
void order_copy_write(Cta& c, std::uintptr_t a, std::uint64_t bytes, std::uint32_t pc, std::uint32_t number);

// ---- synchronisation through a word of global memory
void release_word(Cta& c, std::uintptr_t a, bool continues);  // red.release, st.release
void relaxed_red(Cta& c, std::uintptr_t a);                   // releases what the last fence covers
/// In the plain order, before the word at `a` is updated.
void keep_earlier(Cta& c, std::uintptr_t a);
/// The running thread's first look at a word: what it held before an update that is not ordered in front, as
/// on a card whose other CTAs are slower, so that a flag that is read but not waited for is seen. Null: the
/// word as it is.
const std::uint32_t* acquire_earlier(Cta& c, std::uintptr_t a);
void acquire_words(Cta& c, std::uintptr_t a, std::uint64_t bytes);       // ld.acquire
void relaxed_read_words(Cta& c, std::uintptr_t a, std::uint64_t bytes);  // acquired by the next fence
void fence_gpu(Cta& c);                                                  // fence.acq_rel.gpu

}  // namespace moe::device::emulator
