// The fuzz programs without a fuzzer: each seed of the folders given, then random changes of the seeds
// (always the same ones). Arguments: how many changes, folders. An input that breaks the reader is kept
// beside the program as NAME.broken.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <random>
#include <set>
#include <vector>

#include "fixtures/files/read_file.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

std::string input, kept_as;

void keep_input(int) {
  if (std::FILE* file = std::fopen(kept_as.c_str(), "wb")) {
    std::fwrite(input.data(), 1, input.size(), file);
    std::fclose(file);
  }
  std::_Exit(1);
}

void run(std::string bytes) {
  input = std::move(bytes);
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s (the input is %s)\n", error.what(), kept_as.c_str());
    keep_input(0);
  }
}

/// One change: a byte, a lost or repeated range, a number at its limits, or the tail of another seed.
void change(std::string& bytes, const std::vector<std::string>& seeds, std::mt19937_64& random) {
  static const char* const kWords[] = {
      "0", "-1", "9223372036854775808", "1e999", "nan", "null", "[]", "{}", "\"\"", "\n", ","};
  const auto below = [&](std::size_t n) { return std::size_t(random() % (n + 1)); };
  const std::size_t at = below(bytes.size()), length = below(std::min<std::size_t>(16, bytes.size() - at));
  switch (random() % 6) {
    case 0:
      if (at < bytes.size()) bytes[at] = char(random());
      break;
    case 1:
      if (at < bytes.size()) bytes[at] = char(bytes[at] ^ 1 << random() % 8);
      break;
    case 2:
      bytes.erase(at, length);
      break;
    case 3:
      bytes.insert(below(bytes.size()), bytes.substr(at, length));
      break;
    case 4:
      bytes.replace(at, length, kWords[random() % std::size(kWords)]);
      break;
    default: {
      const std::string& other = seeds[random() % seeds.size()];
      bytes = bytes.substr(0, at) + other.substr(below(other.size()));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  kept_as = std::string(argv[0]) + ".broken";
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, keep_input);
  std::set<std::string> paths;  // in one order everywhere
  for (int i = 2; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) paths.insert(entry.path());
  }
  std::vector<std::string> seeds;
  for (const std::string& path : paths) seeds.push_back(moe::read_file(path));
  if (seeds.empty()) return 2;
  for (const std::string& seed : seeds) run(seed);
  std::mt19937_64 random(1);
  const long changes = std::strtol(argv[1], nullptr, 10);
  for (long i = 0; i < changes; ++i) {
    std::string bytes = seeds[random() % seeds.size()];
    for (std::uint64_t n = 1 + random() % 4; n > 0; --n) change(bytes, seeds, random);
    run(std::move(bytes));
  }
  std::printf("%zu seeds and %ld changes of them: every input was read or refused\n", seeds.size(), changes);
  return 0;
}
