#include "device/emulator/shared_cells.hpp"

#include <algorithm>
#include <cstring>

#include "device/emulator/engine.hpp"

namespace moe::device::emulator {
namespace {

constexpr std::uint32_t kWholeWord = 15;  // a bit a byte

Cell* cells_of(Cta& c, std::uint32_t granule) { return &c.cells[granule / 4]; }
std::uint32_t bytes_of(const Cell& cell) { return kWholeWord & ~std::uint32_t(cell.missing); }
/// The other cell of a word that is apart, or null.
Cell* next_of(Cta& c, const Cell& cell) { return cell.next ? &c.split_cells[cell.next] : nullptr; }
std::uint32_t first_byte(std::uint32_t word, std::uint32_t bytes) {
  return word + std::uint32_t(__builtin_ctz(bytes));
}

/// Cells are cleaned when a granule is first used, so that a CTA that never touches them pays nothing.
Cell* use_cells(Cta& c, Granule& g, std::uint32_t granule) {
  Cell* cells = cells_of(c, granule);
  if (!g.cells_used) {
    std::memset(cells, 0, 4 * sizeof(Cell));
    g.cells_used = 1;
  }
  return cells;
}

/// A thread whose read of the cell is not ordered before, or -1.
int unordered_reader(const Cta& c, const Cell& cell, const Observer& seen) {
  if (cell.readers) {
    const std::vector<Clock>& set = c.read_sets[cell.readers];
    if (!any_above(set.data(), seen.seen, c.thread_count)) return -1;
    for (int i = 0; i < c.thread_count; ++i)
      if (set[std::size_t(i)] && i != seen.self && !seen.knows(i, set[std::size_t(i)])) return i;
    return -1;
  }
  return cell.read_clock && cell.reader != seen.self && !seen.knows(cell.reader, cell.read_clock)
             ? cell.reader
             : -1;
}

void forget_reads(Cta& c, Cell& cell) {
  cell.read_clock = 0;
  if (cell.readers) c.free_read_sets.push_back(cell.readers);
  cell.readers = 0;
}

std::uint32_t take_read_set(Cta& c) {
  if (c.free_read_sets.empty()) {
    c.read_sets.emplace_back(std::size_t(c.thread_count));
    return std::uint32_t(c.read_sets.size() - 1);
  }
  const std::uint32_t number = c.free_read_sets.back();
  c.free_read_sets.pop_back();
  std::fill(c.read_sets[number].begin(), c.read_sets[number].end(), 0);
  return number;
}

void note_read(Cta& c, Cell& cell, const Thread& t, const Observer& seen, Pc pc) {
  cell.read_pc = pc;
  if (cell.readers) {
    c.read_sets[cell.readers][std::size_t(t.id)] = t.knows.own;
  } else if (!cell.read_clock || cell.reader == t.id || seen.knows(cell.reader, cell.read_clock)) {
    cell.read_clock = t.knows.own;
    cell.reader = std::uint16_t(t.id);
  } else {  // a second reader that is not ordered behind the first
    cell.readers = take_read_set(c);
    std::vector<Clock>& set = c.read_sets[cell.readers];
    set[cell.reader] = cell.read_clock;
    set[std::size_t(t.id)] = t.knows.own;
  }
}

/// All bytes of the cell are accessed; `at`: the first of them.
void access_cell(Cta& c, Cell& cell, std::uint32_t at, bool write, const Thread& t, const Observer& seen,
                 Pc pc) {
  if (cell.write_clock && cell.writer != t.id && !seen.knows(cell.writer, cell.write_clock))
    report(c, "race", pc, Who{t.id}, write ? " writes" : " reads", " shared offset ", at, " that ",
           Who{cell.writer}, " wrote at ", At{cell.write_pc}, " without a barrier in between");
  if (!write) return note_read(c, cell, t, seen, pc);
  if (const int other = unordered_reader(c, cell, seen); other >= 0)
    report(c, "race", pc, Who{t.id}, " writes shared offset ", at, " that ", Who{other}, " read at ",
           At{cell.read_pc}, " without a barrier in between");
  forget_reads(c, cell);
  cell.writer = std::uint16_t(t.id);
  cell.write_clock = t.knows.own;
  cell.write_pc = pc;
}

/// `bytes` of the cell, not all, get a cell of their own with the same past.
Cell& take_apart(Cta& c, Cell& cell, std::uint32_t bytes) {
  if (c.free_split_cells.empty()) {
    c.split_cells.emplace_back();
    c.free_split_cells.push_back(std::uint32_t(c.split_cells.size() - 1));
  }
  const std::uint32_t number = c.free_split_cells.back();
  c.free_split_cells.pop_back();
  Cell& part = c.split_cells[number];
  part = cell;
  if (cell.readers) {
    part.readers = take_read_set(c);
    c.read_sets[part.readers] = c.read_sets[cell.readers];
  }
  part.missing = kWholeWord & ~bytes;
  cell.missing |= bytes;
  cell.next = number;
  return part;
}

/// The whole word has one past: what `word` says.
void put_together(Cta& c, Cell& word) {
  for (Cell* other = next_of(c, word); other; other = next_of(c, *other)) forget_reads(c, *other);
  while (word.next) {
    const std::uint32_t number = word.next;
    word.next = c.split_cells[number].next;
    c.free_split_cells.push_back(number);
  }
  word.missing = 0;
}

void access_word(Cta& c, Cell& word, std::uint32_t at, std::uint32_t bytes, bool write, const Thread& t,
                 const Observer& seen, Pc pc) {
  if (bytes == kWholeWord && !word.next) return access_cell(c, word, at, write, t, seen, pc);
  for (Cell* cell = &word; cell; cell = next_of(c, *cell)) {
    const std::uint32_t mine = bytes_of(*cell), touched = mine & bytes;
    if (!touched) continue;
    if (touched != mine) cell = &take_apart(c, *cell, touched);
    access_cell(c, *cell, first_byte(at, touched), write, t, seen, pc);
  }
  if (write && bytes == kWholeWord) put_together(c, word);
}

}  // namespace

void access_cells(Cta& c, Granule& g, std::uint32_t granule, std::uint32_t lo, std::uint32_t hi, bool write,
                  const Observer& seen, Pc pc) {
  Cell* cells = use_cells(c, g, granule);
  const std::uint32_t bits = ((1u << (hi - lo)) - 1) << (lo - granule);
  for (std::uint32_t i = (lo - granule) / 4; i <= (hi - 1 - granule) / 4; ++i)
    access_word(c, cells[i], granule + 4 * i, bits >> (4 * i) & kWholeWord, write, *c.running, seen, pc);
}

void async_read_cells(Cta& c, std::uint32_t granule, const Observer& seen, Pc pc, const char* what) {
  for (std::uint32_t i = 0; i < 4; ++i)
    for (const Cell* cell = cells_of(c, granule) + i; cell; cell = next_of(c, *cell)) {
      if (!cell->write_clock) continue;
      const std::uint32_t at = first_byte(granule + 4 * i, bytes_of(*cell));
      if (!seen.knows(cell->writer, cell->write_clock))
        report(c, "race", pc, what, " reads shared offset ", at, " that ", Who{cell->writer}, " wrote at ",
               At{cell->write_pc}, " without a barrier in between");
      else if (!seen.fenced_since(cell->writer, cell->write_clock))
        report(c, "missing-proxy-fence", pc, what, " reads through the async proxy shared offset ", at,
               " that ", Who{cell->writer}, " wrote with an ordinary store at ", At{cell->write_pc},
               "; no fence.proxy.async in between");
    }
}

void async_write_cells(Cta& c, Granule& g, std::uint32_t granule, const Observer& seen, Pc pc) {
  if (!g.cells_used) return;
  for (std::uint32_t i = 0; i < 4; ++i) {
    Cell& word = cells_of(c, granule)[i];
    for (Cell* cell = &word; cell; cell = next_of(c, *cell)) {
      const std::uint32_t at = first_byte(granule + 4 * i, bytes_of(*cell));
      if (const int other = unordered_reader(c, *cell, seen); other >= 0)
        report(c, "race", pc, "copy overwrites shared offset ", at, " that ", Who{other}, " read at ",
               At{cell->read_pc}, " without a barrier in between");
      if (cell->write_clock && !seen.knows(cell->writer, cell->write_clock))
        report(c, "race", pc, "copy overwrites shared offset ", at, " that ", Who{cell->writer}, " wrote at ",
               At{cell->write_pc}, " without a barrier in between");
      else if (cell->write_clock && !seen.fenced_since(cell->writer, cell->write_clock))
        report(c, "missing-proxy-fence", pc, "copy overwrites shared offset ", at,
               " written by an ordinary store at ", At{cell->write_pc}, "; no fence.proxy.async in between");
    }
    put_together(c, word);
    forget_reads(c, word);
  }
  g.cells_used = 0;
}

void reset_cells(Cta& c) {
  c.read_sets.assign(1, {});  // number 0 means none
  c.free_read_sets.clear();
  c.split_cells.resize(1);
  c.free_split_cells.clear();
}

}  // namespace moe::device::emulator
