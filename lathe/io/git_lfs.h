#pragma once
#include <string>
#include <string_view>

#include "lathe/core/error.h"

namespace lathe {

/// Throws kInvalidData when a file of a model is the small text file that Git LFS puts in its place.
inline void refuse_git_lfs_pointer(std::string_view content, const std::string& path) {
  if (!content.starts_with("version https://git-lfs")) return;
  fail(ErrorCode::kInvalidData,
       "{}: found a Git LFS pointer, expected the file itself: run `git lfs pull` there", path);
}

}  // namespace lathe
