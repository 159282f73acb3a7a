#include "lathe/app/commands/push_to_hub.h"

#include <fmt/format.h>

#include <filesystem>

#include "lathe/app/terminal/hub_terminal.h"
#include "lathe/core/environment.h"
#include "lathe/core/error.h"
#include "lathe/io/hub/hub_upload.h"
#include "lathe/report/shell_text.h"
#include "lathe/train/checkpoint.h"

namespace lathe {
namespace {

UploadTarget target_of(const TrainingArguments& args) {
  // The last name of the folder, "." and ".." resolved.
  const auto folder = std::filesystem::absolute(expand_home(*args.output_dir)).lexically_normal().string();
  return {args.hub_model_id.value_or(file_name(folder)), args.hub_revision.value_or("main"),
          args.hub_private_repo};
}

/// The files of a folder and of those in it, by their paths in it.
void add_files(FileSystem& fs, const std::string& folder, const std::string& inside,
               std::vector<std::string>& files) {
  for (const std::string& name : fs.list(join_path(folder, inside)).value()) {
    const std::string path = inside.empty() ? name : join_path(inside, name), whole = join_path(folder, path);
    if (name.starts_with('.') || name.find(kReplacedSuffix) != std::string::npos) continue;
    if (inside.empty() &&
        (name.starts_with('_') || name.starts_with(kSetAside) || checkpoint_step(name) >= 0))
      continue;
    if (fs.is_directory(whole))
      add_files(fs, folder, path, files);
    else if (!fs.is_special(whole))
      files.push_back(path);
  }
}

}  // namespace

std::string make_repository(Terminal& terminal, const TrainingArguments& args) {
  return create_repository(target_of(args), hub_on(terminal, args.hub_token));
}

void push_to_hub(FileSystem& fs, Terminal& terminal, const TrainingArguments& args,
                 const std::string& repository) {
  UploadTarget target = target_of(args);
  target.name = repository;
  std::vector<std::string> files;
  add_files(fs, *args.output_dir, "", files);
  try {
    const std::string at = upload_files(fs, *args.output_dir, files, target, "End of training",
                                        hub_on(terminal, args.hub_token, "uploaded"));
    terminal.log(LogLevel::kInfo, fmt::format("uploaded {} files: {}", files.size(), at));
  } catch (const Error& error) {
    fail(error.code(), "{}\nThe model is in {}; upload it with: {}", error.what(), *args.output_dir,
         shell_text({"hf", "upload", repository, *args.output_dir}));
  }
}

}  // namespace lathe
