// record_golden FOLDER: records what the tensor cores of this machine's card give, as FOLDER/tensor_core.bin
// and FOLDER/tensor_core.txt (fixtures/golden/README.md); exit 1 where the reference differs. record_golden
// --verify N [SEED]: compares N fresh outputs a form (rounded up to whole batches) with the reference and
// prints one line a form; exit 1 where one differs. Every form of an arithmetic sees the same operands.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>

#include "fixtures/files/embedded.hpp"
#include "fixtures/problem/parallel.hpp"
#include "tests/device/apps/arithmetic_card.hpp"

namespace moe {
std::span<const EmbeddedFile> arithmetic_cubin();  // put in by tests/CMakeLists.txt
}

namespace {

using namespace moe;
using namespace moe::test;

constexpr int kBatch = 24 * kKinds;
constexpr std::size_t kOutputs = std::size_t(kRows) * kColumns;

/// Tile i of a batch has kind i % kKinds.
struct Batch {
  std::vector<Tile> tiles;
  std::vector<std::vector<std::uint8_t>> want;  // by the reference, as stored
};
Batch draw_batch(std::uint64_t seed, int arithmetic_number, std::uint32_t first, int tiles) {
  Batch batch{std::vector<Tile>(std::size_t(tiles)),
              std::vector<std::vector<std::uint8_t>>(std::size_t(tiles))};
  const Arithmetic x = arithmetic(arithmetic_number);
  parallel(tiles, 0, [&](std::int64_t i) {
    Tile& tile = batch.tiles[std::size_t(i)];
    tile =
        draw_tile(seed, tile_format(arithmetic_number), Kind(i % kKinds), first + std::uint32_t(i / kKinds));
    batch.want[std::size_t(i)] = as_stored(x, outputs(x, tile, reference::best_level()));
  });
  return batch;
}

/// Counts differing outputs of the columns that the form covers; prints the first few.
std::int64_t differences(const Form& form, const Batch& batch, const std::vector<std::uint8_t>& got) {
  static std::mutex printing;
  static int printed = 0;
  const Arithmetic x = arithmetic(form.arithmetic);
  const auto width = std::size_t(result_bytes(x));
  std::atomic<std::int64_t> count = 0;
  parallel(std::int64_t(batch.tiles.size()), 0, [&](std::int64_t i) {
    const std::uint8_t *d = &got[std::size_t(i) * kOutputs * width], *w = batch.want[std::size_t(i)].data();
    for (int m = 0; m < kRows; ++m) {
      const std::size_t row = std::size_t(m) * kColumns;
      if (std::memcmp(d + row * width, w + row * width, std::size_t(covered(form.n)) * width) == 0) continue;
      for (int n = 0; n < covered(form.n); ++n) {
        const std::uint32_t g = stored(x, d, row + n), want = stored(x, w, row + n);
        if (g == want) continue;
        ++count;
        const std::lock_guard lock(printing);
        if (++printed > 200) continue;
        const std::vector<std::uint32_t>& c = batch.tiles[std::size_t(i)].c;
        std::printf("  %s, tile %ld (%s), row %d, column %d: card %08x, reference %08x, c %08x\n",
                    form.name().c_str(), long(i), kKindNames[i % kKinds].data(), m, n, g, want,
                    c.empty() ? 0u : c[row + n]);
      }
    }
  });
  return count;
}

bool record(ArithmeticCard& card, const std::string& folder) {
  std::ofstream kept(folder + "/tensor_core.bin", std::ios::binary), hashes(folder + "/tensor_core.txt");
  hashes << "seed " << kGoldenSeed << "\ninputs " << text(hash_inputs()) << "\nform";
  for (std::string_view kind : kKindNames) hashes << ' ' << kind;
  hashes << '\n';
  std::int64_t wrong = 0;
  std::vector<std::uint8_t> d;
  for (int i = 0; i < kArithmetics; ++i) {
    const Arithmetic x = arithmetic(i);
    const auto width = std::size_t(result_bytes(x));
    const Batch batch = draw_batch(kGoldenSeed, i, 0, kKinds);
    card.upload(x, batch.tiles);
    for (const Form& form : forms(i)) {
      card.run(form, kKinds, d);
      wrong += differences(form, batch, d);
      hashes << form.name();
      for (int kind = 0; kind < kKinds; ++kind)
        hashes << ' ' << text(hash_outputs(x, &d[std::size_t(kind) * kOutputs * width], covered(form.n)));
      hashes << '\n';
    }
    for (int kind = 0; kind < kKinds;
         ++kind)  // d holds the last form's; all agree or the hashes say where not
      for (int m = 0; m < kKeptRows; ++m)
        kept.write(reinterpret_cast<const char*>(
                       &d[(std::size_t(kind) * kOutputs + std::size_t(m * kColumns)) * width]),
                   std::streamsize(kKeptColumns * width));
  }
  std::printf("recorded on %s; %ld outputs differ from the reference\n", std::string(card.device()).c_str(),
              long(wrong));
  return wrong == 0 && kept.good() && hashes.good();
}

bool verify(ArithmeticCard& card, double wanted, std::uint64_t seed) {
  std::vector<std::uint8_t> d;
  std::int64_t all = 0, all_wrong = 0;
  for (int i = 0; i < kArithmetics; ++i) {
    const std::vector<Form> list = forms(i);
    std::vector<std::int64_t> compared(list.size()), wrong(list.size());
    for (std::uint32_t first = 0; double(compared[0]) < wanted; first += kBatch / kKinds) {
      const Batch batch = draw_batch(seed, i, first, kBatch);
      card.upload(arithmetic(i), batch.tiles);
      for (std::size_t f = 0; f < list.size(); ++f) {
        if (double(compared[f]) >= wanted) continue;
        card.run(list[f], kBatch, d);
        compared[f] += std::int64_t(kBatch) * kRows * covered(list[f].n);
        wrong[f] += differences(list[f], batch, d);
      }
    }
    for (std::size_t f = 0; f < list.size(); ++f) {
      std::printf("%-36s %11ld outputs, %ld differ\n", list[f].name().c_str(), long(compared[f]),
                  long(wrong[f]));
      all += compared[f];
      all_wrong += wrong[f];
    }
    std::fflush(stdout);
  }
  std::printf("%s, reference level %s, seed %lu: %ld outputs, %ld differ\n",
              std::string(card.device()).c_str(), name(reference::best_level()).data(),
              static_cast<unsigned long>(seed), long(all), long(all_wrong));
  return all_wrong == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool verifying = argc >= 3 && std::string_view(argv[1]) == "--verify";
  if (argc < 2 || argc > (verifying ? 4 : 2)) {
    std::fputs("usage: record_golden FOLDER | record_golden --verify N [SEED]\n", stderr);
    return 2;
  }
  try {
    ArithmeticCard card(arithmetic_cubin()[0].bytes, verifying ? kBatch : kKinds);
    const bool same =
        verifying ? verify(card, std::atof(argv[2]), argc == 4 ? std::strtoull(argv[3], nullptr, 10) : 1)
                  : record(card, argv[1]);
    const std::vector<std::string> reports = card.take_reports();
    for (const std::string& report : reports) std::fprintf(stderr, "%s\n", report.c_str());
    return same && reports.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 3;
  }
}
