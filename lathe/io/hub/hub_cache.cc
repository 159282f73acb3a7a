#include "lathe/io/hub/hub_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <thread>

#include "lathe/core/environment.h"
#include "lathe/core/trimmed.h"
#include "lathe/io/json_file.h"

namespace lathe {
namespace {

// Organisations to which the Hub moved models that once had a name without one.
constexpr std::array<std::string_view, 6> kFirstHomes = {"google-bert", "FacebookAI",       "distilbert",
                                                         "albert",      "openai-community", "google-t5"};

// The first line is the signature that https://bford.info/cachedir asks for.
constexpr std::string_view kCacheTag =
    "Signature: 8a477f597d28d172789f06886806bc55\n# A cache of files from the Hugging Face Hub.\n";

constexpr auto kPollLock = std::chrono::milliseconds(100);

std::string cache_name(const HubRepo& repo) {
  std::string name = repo.name;
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return (repo.kind == RepoKind::kModel ? "models--" : "datasets--") + name;
}

}  // namespace

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

bool is_inside(std::string_view part) {
  if (part.find('\0') != std::string_view::npos) return false;
  for (size_t at = 0; at <= part.size();) {
    const size_t end = std::min(part.find('/', at), part.size());
    const std::string_view name = part.substr(at, end - at);
    if (name.empty() || name == "." || name == "..") return false;
    at = end + 1;
  }
  return true;
}

std::vector<std::string> hub_name_forms(const std::string& name) {
  std::vector<std::string> out{name};
  const size_t slash = name.find('/');
  for (const std::string_view home : kFirstHomes) {
    if (slash == std::string::npos) out.push_back(fmt::format("{}/{}", home, name));
    if (name.substr(0, slash) == home && slash != std::string::npos) out.push_back(name.substr(slash + 1));
  }
  return out;
}

std::string hub_path(const char* name) { return expand_variables(expand_home(environment(name))); }

std::string hub_home() {
  if (const std::string home = hub_path("HF_HOME"); !home.empty()) return home;
  const std::string cache = hub_path("XDG_CACHE_HOME");
  return join_path(cache.empty() ? expand_home("~/.cache") : cache, "huggingface");
}

std::string hub_cache_folder(const std::string& cache_dir) {
  if (!cache_dir.empty()) return expand_home(cache_dir);
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"})
    if (const std::string value = hub_path(name); !value.empty()) return value;
  return join_path(hub_home(), "hub");
}

HubCache::HubCache(FileSystem& fs, std::string cache, const HubRepo& repo)
    : fs_(fs), cache_(std::move(cache)), name_(cache_name(repo)), folder_(join_path(cache_, name_)) {}

std::string HubCache::commit_of(const std::string& revision) const {
  const std::string ref = join_path(folder_, "refs/" + revision);
  if (!fs_.exists(ref) || fs_.is_directory(ref)) return revision;
  const std::string content = fs_.read(ref).value();
  std::string commit(trimmed(content));
  if (!is_inside(commit)) fail(ErrorCode::kInvalidData, "{}: found no name of a commit in it", ref);
  return commit;
}

std::string HubCache::snapshot(const std::string& commit) const {
  return join_path(folder_, "snapshots/" + commit);
}

std::string HubCache::file(const std::string& commit, const std::string& name) const {
  return join_path(snapshot(commit), name);
}

std::string HubCache::blob(const std::string& etag) const { return join_path(folder_, "blobs/" + etag); }

void HubCache::create() {
  fs_.create_directories(join_path(folder_, "blobs")).check();
  fs_.create_directories(join_path(folder_, "snapshots")).check();
  fs_.create_directories(join_path(cache_, ".locks/" + name_)).check();
  const std::string tag = join_path(cache_, "CACHEDIR.TAG");
  if (!fs_.exists(tag)) fs_.write_atomic(tag, kCacheTag).check();
}

void HubCache::link(const std::string& commit, const std::string& name, const std::string& etag) {
  const std::string path = file(commit, name);
  fs_.create_directories(parent_folder(path)).check();
  std::string target = "../../blobs/" + etag;
  for (const char c : name)
    if (c == '/') target.insert(0, "../");
  const std::string temporary = temporary_name(path);
  std::error_code error;
  std::filesystem::create_symlink(target, temporary, error);
  const bool no_links = error == std::errc::operation_not_permitted || error == std::errc::not_supported ||
                        error == std::errc::operation_not_supported;
  if (error)
    fail(ErrorCode::kIo, "{}: cannot make a link: {}{}; HF_HUB_CACHE names another cache", path,
         error.message(), no_links ? ", but the cache needs a disk with links" : "");
  fs_.rename(temporary, path).check();
}

void HubCache::set_ref(const std::string& revision, const std::string& commit) {
  if (revision == commit || commit_of(revision) == commit) return;
  fs_.write_atomic(join_path(folder_, "refs/" + revision), commit).check();
}

void HubCache::remember_files(const std::string& commit, const std::vector<std::string>& files) {
  const std::string path = join_path(folder_, fmt::format(".lathe/{}.json", commit));
  // Whether it could be written or not: without it the Hub is asked again.
  if (!fs_.exists(path)) static_cast<void>(fs_.write_atomic(path, nlohmann::json(files).dump()));
}

std::optional<std::vector<std::string>> HubCache::remembered_files(const std::string& commit) const {
  auto content = fs_.read(join_path(folder_, fmt::format(".lathe/{}.json", commit)));
  if (!content.ok()) return std::nullopt;
  const nlohmann::json json = json_or_nothing(content.value()).value_or(nullptr);
  if (!json.is_array() ||
      !std::all_of(json.begin(), json.end(), [](const nlohmann::json& name) { return name.is_string(); }))
    return std::nullopt;
  return json.get<std::vector<std::string>>();
}

HubCache::Lock::~Lock() { ::close(fd_); }

std::unique_ptr<HubCache::Lock> HubCache::lock(const std::string& etag,
                                               const std::function<void(double)>& waiting) {
  const std::string path = join_path(cache_, fmt::format(".locks/{}/{}.lock", name_, etag));
  // Writable for the group: users who share a cache wait for each other.
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0664);
  if (fd < 0) fail(ErrorCode::kIo, "{}: cannot open: {}", path, std::generic_category().message(errno));
  auto lock = std::make_unique<Lock>(fd);
  const auto begin = std::chrono::steady_clock::now();
  while (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) break;  // no flock here: hashes are checked in any case
    waiting(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    std::this_thread::sleep_for(kPollLock);
  }
  return lock;
}

}  // namespace lathe
