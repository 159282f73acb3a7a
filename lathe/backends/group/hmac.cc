#include "lathe/backends/group/hmac.h"

#ifdef __APPLE__
#include <CommonCrypto/CommonHMAC.h>

#include <cstring>
#else
// SHA-256's own functions: HMAC() would link all of OpenSSL's algorithms into the program.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#endif

namespace lathe::group {

#ifdef __APPLE__

std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view message) {
  std::array<unsigned char, 32> mac;
  CCHmac(kCCHmacAlgSHA256, key.data(), key.size(), message.data(), message.size(), mac.data());
  return mac;
}

bool same_bytes(std::span<const unsigned char> a, std::span<const unsigned char> b) {
  return a.size() == b.size() && timingsafe_bcmp(a.data(), b.data(), a.size()) == 0;
}

#else

namespace {

using Digest = std::array<unsigned char, 32>;
using Block = std::array<unsigned char, SHA256_CBLOCK>;

/// Of the key's block, each byte xor pad, and what follows.
Digest padded(const Block& key, unsigned char pad, const void* data, size_t bytes) {
  Block block;
  std::transform(key.begin(), key.end(), block.begin(),
                 [pad](unsigned char c) { return static_cast<unsigned char>(c ^ pad); });
  SHA256_CTX state;
  SHA256_Init(&state);
  SHA256_Update(&state, block.data(), block.size());
  SHA256_Update(&state, data, bytes);
  Digest out;
  SHA256_Final(out.data(), &state);
  return out;
}

}  // namespace

std::array<unsigned char, 32> hmac_sha256(std::string_view key, std::string_view message) {
  Block block = {};
  if (key.size() > block.size())
    SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), block.data());
  else
    std::copy(key.begin(), key.end(), block.begin());
  constexpr unsigned char kInner = 0x36, kOuter = 0x5c;
  const Digest inner = padded(block, kInner, message.data(), message.size());
  return padded(block, kOuter, inner.data(), inner.size());
}

bool same_bytes(std::span<const unsigned char> a, std::span<const unsigned char> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

#endif

}  // namespace lathe::group
