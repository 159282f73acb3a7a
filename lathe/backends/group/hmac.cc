#include "lathe/backends/group/hmac.h"

#include <algorithm>

#ifdef __APPLE__
#include <CommonCrypto/CommonDigest.h>

#include <cstring>
#else
// SHA-256's own functions: HMAC() would link all of OpenSSL's algorithms into the program.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>
#endif

namespace lathe::group {
namespace {

using Digest = std::array<unsigned char, 32>;
constexpr size_t kBlockBytes = 64;
using Block = std::array<unsigned char, kBlockBytes>;

#ifdef __APPLE__
struct Hash {
  CC_SHA256_CTX state;
  Hash() { CC_SHA256_Init(&state); }
  void add(const void* data, size_t bytes) { CC_SHA256_Update(&state, data, static_cast<CC_LONG>(bytes)); }
  void end(unsigned char* out) { CC_SHA256_Final(out, &state); }
};
#else
struct Hash {
  SHA256_CTX state;
  Hash() { SHA256_Init(&state); }
  void add(const void* data, size_t bytes) { SHA256_Update(&state, data, bytes); }
  void end(unsigned char* out) { SHA256_Final(out, &state); }
};
#endif

/// The hash of the key's block, each byte xor pad, and of what follows.
Digest padded(const Block& key, unsigned char pad, const void* data, size_t bytes) {
  Block block;
  std::transform(key.begin(), key.end(), block.begin(),
                 [pad](unsigned char c) { return static_cast<unsigned char>(c ^ pad); });
  Hash hash;
  hash.add(block.data(), block.size());
  hash.add(data, bytes);
  Digest out;
  hash.end(out.data());
  return out;
}

}  // namespace

std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view message) {
  Block block = {};
  if (key.size() > block.size()) {
    Hash hash;
    hash.add(key.data(), key.size());
    hash.end(block.data());
  } else {
    std::copy(key.begin(), key.end(), block.begin());
  }
  constexpr unsigned char kInner = 0x36, kOuter = 0x5c;
  const Digest inner = padded(block, kInner, message.data(), message.size());
  return padded(block, kOuter, inner.data(), inner.size());
}

bool same_bytes(std::span<const unsigned char> a, std::span<const unsigned char> b) {
#ifdef __APPLE__
  return a.size() == b.size() && timingsafe_bcmp(a.data(), b.data(), a.size()) == 0;
#else
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
#endif
}

}  // namespace lathe::group
