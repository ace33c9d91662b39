// Which C library functions younger than glibc 2.35 would the program need? One: the static libstdc++ of Debian 12 fills
// std::random_device from arc4random (glibc 2.36). This definition answers instead, from getrandom (glibc 2.25).
#include <sys/random.h>

#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != ssize_t(sizeof value)) std::abort();
  return value;
}
