#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lathe/io/hub/hub_client.h"

namespace lathe {

/// A model repository of the Hub that files are uploaded to.
struct UploadTarget {
  std::string name;                     ///< "organisation/name", or "name" of the user whose token it is
  std::string revision = "main";        ///< a branch
  std::optional<bool> is_private = {};  ///< of a repository that is made; nothing: as its owner has set it
};

/// Makes the repository unless it is there.  Returns its whole name.  Errors: kUsage without a token or
/// offline; kNotFound where the token may not write; else as HubClient.
std::string create_repository(const UploadTarget& target, const HubSettings& settings);

/// Uploads files of a folder, named by their paths in it, as one commit: all of them are there then, or
/// none.  Large ones are sent first, and not at all where the Hub has their content already, so that the same
/// call goes on after a fault.  target.name: the whole name.  Returns the commit's address.  Errors: as
/// create_repository; those of reading the files.  Source: huggingface_hub's `upload_folder` and Git LFS's
/// "basic" and "multipart" transfers.
std::string upload_files(FileSystem& fs, const std::string& folder, const std::vector<std::string>& files,
                         const UploadTarget& target, const std::string& message, const HubSettings& settings);

}  // namespace lathe
