#include "lathe/report/html_report.h"

#include <utility>

namespace lathe {
namespace {

constexpr size_t kSamples = 2000;

}  // namespace

HtmlReport::HtmlReport(FileSystem& fs, std::string path, std::string name, RunFacts facts, Source source,
                       LogSink say)
    : fs_(fs),
      path_(std::move(path)),
      name_(std::move(name)),
      facts_(std::move(facts)),
      source_(std::move(source)),
      say_(std::move(say)),
      measured_at_(source_.now()),
      measured_evaluation_(source_.evaluation_seconds()),
      measured_tokens_(source_.trained_tokens()) {
  if (say_) say_(LogLevel::kInfo, "report: " + path_);
}

void HtmlReport::measure(const nlohmann::ordered_json& entry) {
  if (!entry.contains("loss")) return;
  RunSample sample{.step = entry.value("step", int64_t{0}),
                   .tokens_per_second = {},
                   .resident_bytes = source_.resident_bytes(),
                   .device_bytes = source_.device_bytes()};
  const double now = source_.now(), evaluation = source_.evaluation_seconds();
  const double seconds = now - measured_at_ - (evaluation - measured_evaluation_);
  const int64_t tokens = source_.trained_tokens();
  if (seconds > 0) sample.tokens_per_second = static_cast<double>(tokens - measured_tokens_) / seconds;
  measured_at_ = now, measured_evaluation_ = evaluation, measured_tokens_ = tokens;
  samples_.push_back(sample);
  if (samples_.size() <= kSamples) return;
  std::vector<RunSample> half;  // a long run keeps every second one
  for (size_t i = 1; i < samples_.size(); i += 2) half.push_back(samples_[i]);
  samples_ = std::move(half);
}

void HtmlReport::record(const nlohmann::ordered_json& entry) {
  measure(entry);
  write_if_due(entry.contains("loss") ? Pace::kLeastPause : 0);
}

void HtmlReport::write_if_due(double least_pause) {
  if (pace_.due(source_.now(), least_pause)) write();
}

void HtmlReport::show(const Findings& findings) { findings_ = findings; }

void HtmlReport::finish(const RunFacts& facts) {
  facts_ = facts;
  write();
}

void HtmlReport::write() {
  if (failed_) return;
  const double begin = source_.now();
  const Status status = fs_.write_atomic(
      path_, run_page(name_, facts_, source_.state(), source_.losses(), samples_, findings_));
  pace_.wrote(begin, source_.now());
  failed_ = !status.ok();
  if (failed_ && say_) say_(LogLevel::kWarning, "the report ends here: " + status.message());
}

}  // namespace lathe
