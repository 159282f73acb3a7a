#include "lathe/io/descriptor_reserve.h"

#include <fcntl.h>
#include <unistd.h>

namespace lathe {

bool DescriptorReserve::take() {
  while (held_.size() < kCount) {
    const int descriptor = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return false;
    held_.push_back(descriptor);
  }
  return true;
}

void DescriptorReserve::release() {
  for (const int descriptor : held_) ::close(descriptor);
  held_.clear();
}

}  // namespace lathe
