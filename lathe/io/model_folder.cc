#include "lathe/io/model_folder.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <string_view>

namespace lathe {
namespace {

// Organisations to which the Hub moved models that once had a name without one.
constexpr std::array<std::string_view, 6> kFirstHomes = {"google-bert", "FacebookAI",       "distilbert",
                                                         "albert",      "openai-community", "google-t5"};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string expand_home(const std::string& path) {
  if (path != "~" && !path.starts_with("~/")) return path;
  return environment("HOME") + path.substr(1);
}

std::string cache_folder(const std::string& cache_dir) {
  if (!cache_dir.empty()) return expand_home(cache_dir);
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string value = environment(name); !value.empty()) return expand_home(value);
  if (const std::string home = environment("HF_HOME"); !home.empty())
    return join_path(expand_home(home), "hub");
  const std::string cache = environment("XDG_CACHE_HOME");
  return join_path(cache.empty() ? expand_home("~/.cache") : expand_home(cache), "huggingface/hub");
}

/// "name" or "organisation/name" of letters, digits, '-', '_' and '.', as the Hub allows.
bool is_hub_name(std::string_view name) {
  int slashes = 0;
  char before = '/';
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (c == '/') ++slashes;
    if (!letter && c != '-' && c != '_' && c != '.' && c != '/') return false;
    if (before == '/' && (c == '/' || c == '.')) return false;  // "./x", "../x", "/x" are paths
    before = c;
  }
  return !name.empty() && slashes <= 1 && before != '/';
}

/// The name as given, then its other form.
std::vector<std::string> both_forms(const std::string& name) {
  std::vector<std::string> out{name};
  const size_t slash = name.find('/');
  for (const std::string_view home : kFirstHomes) {
    if (slash == std::string::npos) out.push_back(fmt::format("{}/{}", home, name));
    if (name.substr(0, slash) == home && slash != std::string::npos) out.push_back(name.substr(slash + 1));
  }
  return out;
}

std::string cache_name(std::string name) {
  const size_t slash = name.find('/');
  if (slash != std::string::npos) name.replace(slash, 1, "--");
  return "models--" + name;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) + 1 - first);
}

/// A revision and a commit become parts of a path.
bool is_inside(const std::string& part) {
  return !part.empty() && part[0] != '/' && part.find("..") == std::string::npos;
}

/// The snapshot of a revision; adds to `looked_at` and returns "" when it is not there.
std::string find_snapshot(FileSystem& fs, const std::string& model, const std::string& revision,
                          std::vector<std::string>& looked_at) {
  std::string commit = revision;
  const std::string ref = join_path(model, "refs/" + revision);
  if (fs.exists(ref) && !fs.is_directory(ref)) commit = trimmed(fs.read(ref).value());
  if (!is_inside(commit)) fail(ErrorCode::kInvalidData, "{}: found no name of a commit in it", ref);
  const std::string snapshot = join_path(model, "snapshots/" + commit);
  if (fs.is_directory(snapshot)) return snapshot;
  looked_at.push_back(commit == revision && fs.is_directory(model)
                          ? fmt::format("{} (and refs/{})", snapshot, revision)
                          : snapshot);
  return "";
}

}  // namespace

std::string hub_cache_folder(const std::string& cache_dir) { return cache_folder(cache_dir); }

std::string resolve_model(FileSystem& fs, const std::string& name_or_path, const std::string& revision,
                          const std::string& cache_dir) {
  const std::string path = expand_home(name_or_path);
  if (fs.is_directory(path)) return path;
  if (!is_hub_name(name_or_path))
    fail(ErrorCode::kNotFound,
         "{}: {}, wants a folder with config.json and weights, or a model's name (\"bert-base-cased\")",
         name_or_path, fs.exists(path) ? "found a file" : "there is no such folder");
  if (!is_inside(revision))
    fail(ErrorCode::kUsage, "revision \"{}\": wants a branch, tag or commit", revision);
  const std::string cache = cache_folder(cache_dir);
  std::vector<std::string> looked_at{path};
  for (const std::string& name : both_forms(name_or_path)) {
    const std::string snapshot = find_snapshot(fs, join_path(cache, cache_name(name)), revision, looked_at);
    if (!snapshot.empty()) return snapshot;
  }
  fail(ErrorCode::kNotFound,
       "model \"{}\" (revision {}) is not on this machine. Looked at:\n  {}\nGive the folder of a model "
       "(config.json and "
       "model.safetensors), or fetch it with `hf download {}`, or set HF_HOME to the Hugging Face cache that "
       "holds it.",
       name_or_path, revision, fmt::join(looked_at, "\n  "), name_or_path);
}

}  // namespace lathe
