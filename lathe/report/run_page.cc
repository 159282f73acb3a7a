#include "lathe/report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lathe/core/ceil_div.h"
#include "lathe/report/findings_page.h"
#include "lathe/report/html.h"
#include "lathe/report/line_chart.h"
#include "lathe/text/python_format.h"
#include "lathe/train/log_format.h"

namespace lathe {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRows = 100;
constexpr size_t kMeans = 40;  // of the loss in front of its points

Curve curve_of(const std::vector<Json>& history, const std::string& key) {
  Curve curve{key};
  for (const Json& entry : history)
    if (entry.contains(key) && entry[key].is_number() && entry.contains("step"))
      curve.points.emplace_back(entry["step"].get<double>(), entry[key].get<double>());
  return curve;
}

/// Metrics of evaluations in the order in which they come, the loss and speeds left out.
std::vector<std::string> metric_keys(const std::vector<Json>& history) {
  std::vector<std::string> keys;
  for (const Json& entry : history)
    for (const auto& [key, value] : entry.items())
      if (key.starts_with("eval_") && key != "eval_loss" && value.is_number() && !is_speed_key(key) &&
          std::find(keys.begin(), keys.end(), key) == keys.end())
        keys.push_back(key);
  return keys;
}

std::string number_text(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.6g}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : python_repr(value);
}

template <typename Member>
Curve samples_curve(const std::vector<RunSample>& samples, Member member, double scale) {
  Curve curve;
  for (const RunSample& sample : samples)
    if (const auto& value = sample.*member)
      curve.points.emplace_back(static_cast<double>(sample.step), *value * scale);
  return curve;
}

/// A long curve of losses, which differ from batch to batch, is their mean in front of its points.
Curve loss_curve(const LossCurve& losses) {
  Curve curve{"training"};
  for (const LossCurve::Point& p : losses.points())
    curve.points.emplace_back(static_cast<double>(p.step), p.loss);
  const size_t of = ceil_div(curve.points.size(), kMeans);
  if (of < 2) return curve;
  curve.behind = means(curve.points, of);
  curve.behind.swap(curve.points);
  const int64_t each = losses.points().front().updates;
  curve.name = fmt::format("training, means of {} updates, faint: {}", static_cast<int64_t>(of) * each,
                           each == 1 ? "each update" : fmt::format("of {}", each));
  return curve;
}

std::string charts(const std::vector<Json>& history, const LossCurve& losses,
                   const std::vector<RunSample>& samples) {
  constexpr double kGiB = 1.0 / (1 << 30);
  const auto one = [](const char* title, Curve curve) {
    return svg_chart({title, "step", {std::move(curve)}});
  };
  std::string html = svg_chart({"loss", "step", {loss_curve(losses), curve_of(history, "eval_loss")}});
  for (const std::string& key : metric_keys(history))
    if (Curve curve = curve_of(history, key);  // the value of one step stands in the tables
        !curve.points.empty() && curve.points.front().first < curve.points.back().first)
      html += one(key.c_str(), std::move(curve));
  html += one("learning rate", curve_of(history, "learning_rate"));
  html += one("gradient norm, before clipping", curve_of(history, "grad_norm"));
  html += one("tokens per second, without padding and evaluations",
              samples_curve(samples, &RunSample::tokens_per_second, 1));
  html += one("memory of the process, GiB", samples_curve(samples, &RunSample::resident_bytes, kGiB));
  html += one("memory of the device in use, GiB", samples_curve(samples, &RunSample::device_bytes, kGiB));
  return html.empty() ? "<p>Nothing was logged yet.</p>\n" : "<div class=\"charts\">\n" + html + "</div>\n";
}

std::string pairs_table(const std::vector<std::pair<std::string, std::string>>& pairs) {
  HtmlTable table{{}, {true, true}, {}};
  for (const auto& [name, value] : pairs) table.rows.push_back({name, value});
  return html_table(table);
}

/// The last value of every key of the log history but the curves'.
std::string results(const std::vector<Json>& history) {
  std::map<std::string, std::string> last;
  for (const Json& entry : history)
    for (const auto& [key, value] : entry.items())
      if (key.starts_with("train_") || key.starts_with("eval_")) last[key] = number_text(value);
  HtmlTable table{{}, {true, false}, {}};
  for (const auto& [key, value] : last) table.rows.push_back({key, value});
  return table.rows.empty() ? "" : "<h2>Results</h2>\n" + html_table(table);
}

void leave_out_empty_columns(HtmlTable& table) {
  for (size_t k = table.titles.size(); k-- > 0;) {
    if (std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) { return !row[k].empty(); }))
      continue;
    table.titles.erase(table.titles.begin() + static_cast<long>(k));
    for (auto& row : table.rows) row.erase(row.begin() + static_cast<long>(k));
  }
}

std::string evaluations(const std::vector<Json>& history) {
  std::vector<std::string> keys = {"step", "epoch", "eval_loss"};
  for (const std::string& key : metric_keys(history)) keys.push_back(key);
  HtmlTable table{keys, {}, {}};
  for (const Json& entry : history) {
    const auto has = [&](const std::string& key) { return entry.contains(key); };
    if (std::none_of(keys.begin() + 2, keys.end(), has)) continue;
    std::vector<std::string> row;
    for (const std::string& key : keys) row.push_back(has(key) ? number_text(entry[key]) : "");
    // What training evaluated last is evaluated once more at the end.
    if (table.rows.empty() || table.rows.back() != row) table.rows.push_back(std::move(row));
  }
  const size_t count = table.rows.size();
  if (count == 0) return "";
  leave_out_empty_columns(table);
  std::string html = "<h2>Evaluations</h2>\n";
  if (count > kRows) {
    html += fmt::format("<p>The last {} of {}.</p>\n", kRows, count);
    table.rows.erase(table.rows.begin(), table.rows.end() - static_cast<long>(kRows));
  }
  return html + html_table(table);
}

/// Words in spans, which the page does not break: a line that ends in the hyphens of a flag is hard to read.
std::string command_html(const std::string& command) {
  std::string html = "<pre><span>";
  for (const char c : escaped(command)) html += c == ' ' ? "</span> <span>" : std::string(1, c);
  return html + "</span></pre>\n";
}

}  // namespace

std::string run_page(const std::string& name, const RunFacts& facts, const TrainerState& state,
                     const LossCurve& losses, const std::vector<RunSample>& samples,
                     const Findings& findings) {
  const bool trains = state.max_steps > 0;
  std::string note = facts.state;
  if (trains)
    note += fmt::format(": step {} of {}, epoch {:.4g}", state.global_step, state.max_steps, state.epoch);
  note += "; started " + local_time(facts.started);
  if (!facts.ended.empty()) note += ", ended " + local_time(facts.ended);
  if (state.best_metric) note += fmt::format("; best metric {:.6g}", *state.best_metric);
  std::string body = trains ? charts(state.log_history, losses, samples) : "";
  body += results(state.log_history) + evaluations(state.log_history) + findings_html(findings);
  body += "<h2>Command</h2>\n" + command_html(facts.command());
  body += "<h2>Environment</h2>\n" + pairs_table(facts.environment);
  HtmlTable settings{{"argument", "value"}, {true, true}, {}};
  for (const auto& [key, value] : facts.settings.items()) settings.rows.push_back({key, number_text(value)});
  body += "<h2>Arguments</h2>\n<details><summary>all " + std::to_string(settings.rows.size()) +
          "</summary>\n" + html_table(settings) + "</details>\n";
  return html_document(name, note, body);
}

}  // namespace lathe
