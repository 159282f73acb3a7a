#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/error.h"

namespace lathe::group {

/// A file descriptor that is closed at its end.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  operator int() const { return fd_; }

 private:
  int fd_;
};

/// What ranks and their store tell each other.
struct Frame {
  enum class Kind : uint32_t {
    kHello = 0x4c544831,  ///< key: the rank, value: how many, a space and the run's name; any other first
                          ///< frame is no rank of ours
    kSet,
    kGet,
    kValue,
    kGone,     ///< key: the rank as text
    kRefused,  ///< key: why a rank that said hello is none of this run
  };
  Kind kind = Kind::kGet;
  std::string key;
  std::vector<char> value;
};

/// A socket that listens on every address of this machine; port 0: any.  Errors: kIo.
Descriptor listen_on(int port);
int port_of(int fd);
/// One attempt to connect, of at most so long for each address of the name; −1 where nobody answers.
/// Errors: kIo if the name is not known.
Descriptor connect_to(const std::string& address, int port, int limit_ms);
/// The address of this end of a connection.
std::string local_address(int fd);
/// Small frames leave at once, and an end that does not answer closes the connection after 18 s.
void tune(int fd);
/// False where the other end is gone, or takes nothing for some seconds.
bool send_frame(int fd, const Frame& frame);

/// Bytes of a connection as frames.
class FrameReader {
 public:
  /// Reads once what is there, waiting for it if nothing is.  False: the connection is closed or what came is
  /// no frame.
  bool read(int fd);
  std::optional<Frame> next();

 private:
  std::vector<char> bytes_;
  bool broken_ = false;
};

}  // namespace lathe::group
