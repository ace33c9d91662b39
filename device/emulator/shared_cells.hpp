// Which ordinary accesses of shared memory may race? The shadow of each 4-byte word remembers who wrote and
// who read it last. Bytes of a word that threads access apart (16-bit and 8-bit elements) get shadows of
// their own, and one again once a whole word is written.
#pragma once
#include <cstdint>

#include "device/emulator/cta.hpp"

namespace moe::device::emulator {

/// The running thread's access of bytes lo..hi of shared memory, inside the granule that begins at `granule`.
void access_cells(Cta& c, Granule& g, std::uint32_t granule, std::uint32_t lo, std::uint32_t hi, bool write,
                  const Observer& seen, Pc pc);
/// `what` reads the granule through the asynchronous proxy: its writes must be ordered and fenced.
void async_read_cells(Cta& c, std::uint32_t granule, const Observer& seen, Pc pc, const char* what);
/// A copy overwrites the granule: all accesses must be ordered, writes fenced; they are forgotten.
void async_write_cells(Cta& c, Granule& g, std::uint32_t granule, const Observer& seen, Pc pc);
void reset_cells(Cta& c);

}  // namespace moe::device::emulator
