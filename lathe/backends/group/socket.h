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
    kHello = 0x4c544831,  ///< handshake.h has its content; with any other first frame it is no rank of ours
    kSet,
    kGet,
    kValue,
    kGone,       ///< key: the rank as text
    kRefused,    ///< key: why a rank that said hello is not let in
    kChallenge,  ///< handshake.h, as the following
    kProof,
    kWelcome,
  };
  Kind kind = Kind::kGet;
  std::string key;
  std::vector<char> value;
};

/// A socket that listens on every address of this machine; port 0: any.  Errors: kIo.
Descriptor listen_on(int port);
/// A socket that listens only where other machines need it to connect to this name of this machine: on the
/// name's address, if it has exactly one.  It listens on every address if the name has several, if only this
/// machine resolves it to its loopback (as /etc/hosts of Debian does), or if the address is not this
/// machine's own (it may be translated).  Errors: kIo.
Descriptor listen_at(const std::string& name, int port);
/// The next connection of a socket that listens and does not block; −1: there is none, or errno says why.
Descriptor accept_from(int listening);
int port_of(int fd);
/// One attempt to connect, of at most this long for each address of the name; −1 where nobody answers.
/// Errors: kIo if the name is not known.
Descriptor connect_to(const std::string& address, int port, int limit_ms);
/// The address of this end of a connection.
std::string local_address(int fd);
/// Small frames leave at once.  An end that does not answer closes the connection after 18 s.
void tune(int fd);
/// False if the other end is gone, or takes nothing for some seconds.
bool send_frame(int fd, const Frame& frame);

/// Bytes of a connection as frames.
class FrameReader {
 public:
  /// most: bytes that it reads in total; a frame that claims to be longer is invalid.
  explicit FrameReader(size_t most = SIZE_MAX) : left_(most) {}
  /// Reads once what is there, at most this many bytes; waits for it if nothing is there.  False: the
  /// connection is closed, the data is no frame, or the limit is reached.
  bool read(int fd, size_t most = SIZE_MAX);
  /// Bytes until the length of the next frame is known, or after that until its end.
  size_t missing() const;
  std::optional<Frame> next();
  bool broken() const { return broken_; }
  bool empty() const { return bytes_.empty(); }

 private:
  std::vector<char> bytes_;
  size_t left_;  // to read
  bool broken_ = false;
};

}  // namespace lathe::group
