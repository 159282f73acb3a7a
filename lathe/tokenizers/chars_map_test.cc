#include "lathe/tokenizers/chars_map.h"

#include <gtest/gtest.h>

#include "lathe/core/error.h"

namespace lathe {
namespace {

TEST(CharsMap, DamagedOnesAreRefusedOrFindNothing) {
  EXPECT_THROW(CharsMap("", "map"), Error);
  EXPECT_THROW(CharsMap(std::string("\x08\0\0\0\0\0\0\0", 8), "map"), Error);  // a trie longer than the file
  EXPECT_THROW(CharsMap(std::string("\x04\0\0\0\0\0\0\0\xff", 9), "map"), Error);  // texts that are none
  const CharsMap beyond(std::string("\x04\0\0\0\0\xfc\xff\xff", 8), "map");  // an offset beyond the trie
  EXPECT_FALSE(beyond.find("a"));
}

}  // namespace
}  // namespace lathe
