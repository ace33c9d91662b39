// Checkpoints (--weights, --x, ...): every tensor of an accepted file can be read from first byte to last.
#include "fixtures/files/safetensors.hpp"
#include "tests/fuzz/fuzz.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace moe;
  const fuzz::MemoryFile file(bytes, size);
  fuzz::accepted([&] {
    const Safetensors opened(file.path());
    unsigned sum = 0;
    for (const StoredTensor& stored : opened.tensors()) {
      for (const std::byte b : opened.bytes(stored)) sum += unsigned(b);
      fuzz::require(opened.find(stored.name) != nullptr, "a listed tensor is found by its name");
      fuzz::accepted([&] {
        const Tensor tensor = opened.tensor(stored.name);
        fuzz::require(tensor.bytes() == stored.end - stored.begin, "a tensor has the bytes of its place");
        for (std::size_t i = 0; i < tensor.bytes(); ++i)
          sum += unsigned(static_cast<const std::byte*>(tensor.data())[i]);
      });
    }
    volatile unsigned used = sum;
    (void)used;
  });
  return 0;
}
