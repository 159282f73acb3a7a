#pragma once
#include <string>
#include <vector>

#include "lathe/io/hub/hub_client.h"

namespace lathe {

/// Brings a file's bytes to `path`, where the first of them may lie from an earlier try: those are kept and
/// the rest is asked for by range, in parts over several connections where there is much left (what is beyond
/// the first part that is missing lies in `<path>.part<i>` meanwhile).  Afterwards the size is right; the
/// content is not checked.  Each connection is tried again up to HubClient::kTries times without a MiB more.
/// Errors: as HubClient, and what should_stop throws; kIo where the disk is full, with the bytes that are
/// wanted.
void download_bytes(FileSystem& fs, HubClient& client, const RemoteFile& file, const std::string& path);

/// The `<path>.part<i>` that are there.  Errors: kIo.
std::vector<std::string> part_files(FileSystem& fs, const std::string& path);

/// Whether the bytes at `path` have the hash that the file's etag is.  Errors: kIo.
bool has_right_hash(FileSystem& fs, const std::string& path, const std::string& etag);

}  // namespace lathe
