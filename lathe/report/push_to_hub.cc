#include "lathe/report/push_to_hub.h"

#include <fmt/format.h>

#include <filesystem>

#include "lathe/core/environment.h"
#include "lathe/core/error.h"
#include "lathe/io/hub/hub_upload.h"
#include "lathe/report/shell_text.h"
#include "lathe/text/unicode.h"
#include "lathe/text/visible_text.h"
#include "lathe/train/checkpoint.h"

namespace lathe {
namespace {

UploadTarget target_of(const TrainingArguments& args) {
  // The last name of the folder, "." and ".." resolved.
  const auto folder = std::filesystem::absolute(expand_home(*args.output_dir)).lexically_normal().string();
  return {args.hub_model_id.value_or(file_name(folder)), args.hub_revision.value_or("main"),
          args.hub_private_repo};
}

/// The files of a folder and of those in it, by their paths in it; of links only those to files, as
/// huggingface_hub's upload_folder: a folder's may lead to a checkpoint, up again, or out.
void add_files(FileSystem& fs, const std::string& folder, const std::string& inside,
               std::vector<std::string>& files) {
  for (const std::string& name : fs.list(join_path(folder, inside)).value()) {
    const std::string path = inside.empty() ? name : join_path(inside, name), whole = join_path(folder, path);
    if (name.starts_with('.') || name.find(kReplacedSuffix) != std::string::npos) continue;
    if (inside.empty() &&
        (name.starts_with('_') || name.starts_with(kSetAside) || checkpoint_step(name) >= 0))
      continue;
    std::error_code ignored;
    const bool is_link = std::filesystem::is_symlink(whole, ignored);
    if (is_link && (fs.is_directory(whole) || !fs.exists(whole))) continue;
    if (!unicode::is_valid(name))
      fail(ErrorCode::kInvalidData, "{}: its name is not UTF-8, which the Hub needs; rename or remove it",
           visible_line(whole));
    if (fs.is_directory(whole))
      add_files(fs, folder, path, files);
    else if (!fs.is_special(whole))
      files.push_back(path);
  }
}

}  // namespace

std::string make_repository(const TrainingArguments& args, const HubSettings& hub) {
  return create_repository(target_of(args), hub);
}

std::string push_to_hub(FileSystem& fs, const TrainingArguments& args, const std::string& repository,
                        const std::string& message, const HubSettings& hub) {
  UploadTarget target = target_of(args);
  target.name = repository;
  try {
    std::vector<std::string> files;
    add_files(fs, *args.output_dir, "", files);
    return upload_files(fs, *args.output_dir, files, target, message, hub);
  } catch (const Error& error) {
    fail(error.code(), "{}\nThe model is in {}; upload it with: {}", error.what(), *args.output_dir,
         shell_text({"hf", "upload", repository, *args.output_dir}));
  }
}

}  // namespace lathe
