// Which accesses of global memory are ordered, inside a CTA and between CTAs that communicate? A shadow of
// the bytes that kernels may write: who wrote and read each 4-byte cell last, by which proxy, and what a
// release of a word hands to those who acquire it. PTX ISA, "Memory Consistency Model": a release or a red
// that continues it, seen by an acquire, orders what came before; a fence makes weaker accesses count as
// such.
#pragma once
#include <cstdint>
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

struct GlobalCell {
  Event write, read;
  std::uint32_t readers = 0;            // number of a set of reads that are not ordered; 0 = only `read`
  std::uint8_t written = 0, reads = 0;  // a bit a byte
};

class GlobalOrder {
 public:
  void clear();
  /// The cell of address a; made when first used.
  GlobalCell& cell(std::uintptr_t a) {
    const std::uintptr_t page = a / kPageBytes;
    if (page != last_page_) find_page(page);
    return last_cells_[a % kPageBytes / 4];
  }
  std::vector<Event>& readers(std::uint32_t number) { return sets_[number]; }
  std::uint32_t take_set();
  void give_back_set(std::uint32_t number) { free_sets_.push_back(number); }

  /// What an acquire of the word at `a` learns; null where nothing was released.
  Others released(std::uintptr_t a) const;
  /// `continues`: by a red, which adds to what was released before.
  void release(std::uintptr_t a, const Others& known, bool continues);
  /// An ordinary store ends what was released.
  void overwrite(std::uintptr_t a, std::uint64_t bytes);

 private:
  static constexpr std::uintptr_t kPageBytes = 1024;
  void find_page(std::uintptr_t page);
  std::unordered_map<std::uintptr_t, std::unique_ptr<GlobalCell[]>> pages_;
  std::uintptr_t last_page_ = ~std::uintptr_t(0);
  GlobalCell* last_cells_ = nullptr;
  std::vector<std::vector<Event>> sets_{1};
  std::vector<std::uint32_t> free_sets_;
  std::unordered_map<std::uintptr_t, Others> released_;  // by 4-byte word
};

// ---- accesses of the running thread (or of its copy), judged against what the cells remember
void order_access(Cta& c, std::uintptr_t a, std::uint64_t bytes, bool write, Via via, std::uint32_t pc);
/// A TMA or bulk load reads; it is over for those who know phase `phase` of mbarrier `bar`.
void order_copy_read(Cta& c, std::uintptr_t a, std::uint64_t bytes, std::uint32_t pc, int bar,
                     std::uint32_t phase);
/// Bulk store `number` writes; it is over for those who know the wait of its thread.
void order_copy_write(Cta& c, std::uintptr_t a, std::uint64_t bytes, std::uint32_t pc, std::uint32_t number);

// ---- synchronisation through a word of global memory
void release_word(Cta& c, std::uintptr_t a, bool continues);        // red.release, st.release
void relaxed_red(Cta& c, std::uintptr_t a);                         // releases what the last fence covers
void acquire_words(Cta& c, std::uintptr_t a, std::uint64_t bytes);  // ld.acquire
void relaxed_read_words(Cta& c, std::uintptr_t a, std::uint64_t bytes);  // acquired by the next fence
void fence_gpu(Cta& c);                                                  // fence.acq_rel.gpu

}  // namespace moe::device::emulator
