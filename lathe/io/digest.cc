#include "lathe/io/digest.h"

#include <fmt/format.h>

#include <algorithm>

#ifdef __APPLE__
#include <CommonCrypto/CommonDigest.h>
#else
// The one-algorithm functions: EVP's would link all of OpenSSL's algorithms into the program.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#endif

namespace lathe {
namespace {

// CommonCrypto counts bytes in 32 bits.
constexpr size_t kReadBytes = size_t{1} << 30;

#ifdef __APPLE__
struct Sha256Hash {
  CC_SHA256_CTX state;
  unsigned char out[CC_SHA256_DIGEST_LENGTH];
  void begin() { CC_SHA256_Init(&state); }
  void add(const void* data, size_t bytes) { CC_SHA256_Update(&state, data, static_cast<CC_LONG>(bytes)); }
  void end() { CC_SHA256_Final(out, &state); }
};
struct Sha1Hash {
  CC_SHA1_CTX state;
  unsigned char out[CC_SHA1_DIGEST_LENGTH];
  void begin() { CC_SHA1_Init(&state); }
  void add(const void* data, size_t bytes) { CC_SHA1_Update(&state, data, static_cast<CC_LONG>(bytes)); }
  void end() { CC_SHA1_Final(out, &state); }
};
#else
struct Sha256Hash {
  SHA256_CTX state;
  unsigned char out[SHA256_DIGEST_LENGTH];
  void begin() { SHA256_Init(&state); }
  void add(const void* data, size_t bytes) { SHA256_Update(&state, data, bytes); }
  void end() { SHA256_Final(out, &state); }
};
struct Sha1Hash {
  SHA_CTX state;
  unsigned char out[SHA_DIGEST_LENGTH];
  void begin() { SHA1_Init(&state); }
  void add(const void* data, size_t bytes) { SHA1_Update(&state, data, bytes); }
  void end() { SHA1_Final(out, &state); }
};
#endif

template <typename Hash>
void add_to(Hash& hash, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto chunk = bytes.first(std::min(bytes.size(), kReadBytes));
    hash.add(chunk.data(), chunk.size());
    bytes = bytes.subspan(chunk.size());
  }
}

template <typename Hash>
std::string end_of(Hash& hash) {
  hash.end();
  return fmt::format("{:02x}", fmt::join(hash.out, ""));
}

template <typename Hash>
std::string hex_of(std::string_view head, std::span<const std::byte> bytes) {
  Hash hash;
  hash.begin();
  if (!head.empty()) hash.add(head.data(), head.size());
  add_to(hash, bytes);
  return end_of(hash);
}

}  // namespace

struct Sha256::State : Sha256Hash {};

Sha256::Sha256() : state_(std::make_unique<State>()) { state_->begin(); }
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(std::span<const std::byte> bytes) { add_to(*state_, bytes); }

std::string Sha256::take_hex() {
  std::string out = end_of(*state_);
  state_->begin();
  return out;
}

std::string sha256_hex(std::span<const std::byte> bytes) { return hex_of<Sha256Hash>("", bytes); }

std::string git_blob_hex(std::span<const std::byte> bytes) {
  const std::string head = fmt::format("blob {}", bytes.size());
  return hex_of<Sha1Hash>({head.c_str(), head.size() + 1}, bytes);  // its zero byte too
}

}  // namespace lathe
