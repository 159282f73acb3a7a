#include "lathe/report/findings_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lathe/report/html.h"

namespace lathe {
namespace {

constexpr size_t kTextLength = 300;  // of an example, in code points
constexpr size_t kBars = 20;         // labels of the chart

double share(int64_t part, int64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

/// The labels of the chart, by number: the most frequent ones, in their order.
std::vector<size_t> shown_labels(const std::vector<LabelCounts>& counts) {
  std::vector<size_t> labels(counts.size());
  std::iota(labels.begin(), labels.end(), size_t{0});
  std::stable_sort(labels.begin(), labels.end(), [&](size_t a, size_t b) {
    return std::pair(counts[a].trained, counts[a].samples) > std::pair(counts[b].trained, counts[b].samples);
  });
  labels.resize(std::min(labels.size(), kBars));
  std::sort(labels.begin(), labels.end());
  return labels;
}

/// How often each label comes: in the training data, in the evaluated data, and in what was predicted.
std::string balance(const Findings& findings) {
  struct Part {
    const char* name;
    int64_t LabelCounts::*count;
    int64_t all = 0, most = 0;
  };
  std::vector<Part> parts = {{"training data", &LabelCounts::trained},
                             {"evaluated data", &LabelCounts::samples},
                             {"predicted", &LabelCounts::predicted}};
  for (Part& part : parts)
    for (const LabelCounts& counts : findings.counts) {
      part.all += counts.*part.count;
      part.most = std::max(part.most, counts.*part.count);
    }
  double longest = 0;
  std::string html = "<h2>Class balance</h2>\n<figcaption>";
  for (size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].all == 0) continue;
    html += fmt::format("<span class=\"k{}\">&#9632; {}</span> ", k, parts[k].name);
    longest = std::max(longest, share(parts[k].most, parts[k].all));
  }
  if (longest == 0) return "";
  const std::vector<size_t> labels = shown_labels(findings.counts);
  if (labels.size() < findings.labels.size())
    html += fmt::format(" the {} most frequent of {} labels", labels.size(), findings.labels.size());
  html += "</figcaption>\n<div class=\"bars\">\n";
  for (const size_t label : labels) {
    html += fmt::format("<div>{}</div><div>", escaped(findings.labels[label]));
    for (size_t k = 0; k < parts.size(); ++k) {
      if (parts[k].all == 0) continue;
      const int64_t count = findings.counts[label].*parts[k].count;
      const double part = share(count, parts[k].all);
      html += fmt::format("<div class=\"bar k{}\" style=\"--share:{:.3f}\"><span>{} · {:.0f} %</span></div>",
                          k, part / longest, count, 100 * part);
    }
    html += "</div>\n";
  }
  return html + "</div>\n";
}

/// Source of the definitions: scikit-learn's classification_report.
std::string scores(const Findings& findings) {
  HtmlTable table{{"label", "samples", "predicted", "precision", "recall", "F1"}, {true}, {}};
  const auto text = [](double value, bool known) { return known ? fmt::format("{:.3f}", value) : "–"; };
  double precisions = 0, recalls = 0, f1s = 0, met = 0;
  for (size_t k = 0; k < findings.counts.size(); ++k) {
    const LabelCounts& c = findings.counts[k];
    const double precision = share(c.right, c.predicted), recall = share(c.right, c.samples),
                 f1 = share(2 * c.right, c.samples + c.predicted);
    precisions += precision, recalls += recall, f1s += f1;
    met += c.samples + c.predicted > 0 ? 1 : 0;
    table.rows.push_back({findings.labels[k], std::to_string(c.samples), std::to_string(c.predicted),
                          text(precision, c.predicted > 0), text(recall, c.samples > 0),
                          text(f1, c.samples + c.predicted > 0)});
  }
  const auto mean = [&](double sum) { return text(sum / met, met > 0); };
  table.rows.push_back({"mean of the labels", "", "", mean(precisions), mean(recalls), mean(f1s)});
  return fmt::format("<h2>Scores by label</h2>\n<p>{}{}</p>\n", escaped(findings.data),
                     findings.counts.size() < findings.labels.size()
                         ? fmt::format("; the first {} of {}", findings.counts.size(), findings.labels.size())
                         : "") +
         html_table(table);
}

std::string calibration_text(const Calibration& found) {
  return fmt::format(
      "<p>Calibration: of the {} predictions made with {:.0f} to {:.0f} % confidence, {:.0f} % are right; "
      "the "
      "expected calibration error is {:.1f} %.</p>\n",
      found.samples, 100 * found.from, 100 * found.to, 100 * found.right, 100 * found.error);
}

/// A cell is as dark as its share of its row.
std::string confusion(const Findings& findings) {
  const size_t classes = findings.confusion.counts.size();
  if (classes == 0) return "";
  std::string html = "<h2>Confusion matrix</h2>\n";
  html += fmt::format(
      "<p>{}: rows are labels, columns what was predicted{}.</p>\n<div class=\"scroll\"><table>\n",
      escaped(findings.data),
      classes < findings.labels.size() ? fmt::format("; the first {} of {}", classes, findings.labels.size())
                                       : "");
  html += "<tr><th>label / predicted</th>";
  for (size_t k = 0; k < classes; ++k) html += fmt::format("<th>{}</th>", escaped(findings.labels[k]));
  html += "</tr>\n";
  for (size_t wanted = 0; wanted < classes; ++wanted) {
    const std::vector<int64_t>& row = findings.confusion.counts[wanted];
    const int64_t all = findings.confusion.samples[wanted];
    html += fmt::format("<tr><th>{}</th>", escaped(findings.labels[wanted]));
    for (size_t found = 0; found < classes; ++found)
      html += row[found] == 0 ? "<td class=\"zero\">0</td>"
                              : fmt::format("<td class=\"share\" style=\"--share:{}%\">{}</td>",
                                            60 * row[found] / all, row[found]);
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

std::string shortened(const std::string& text) {
  std::string valid;
  size_t length = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xc0) != 0x80;
    if (begins && ++length > kTextLength) return valid + "…";
    valid += text[i];
  }
  return valid;
}

std::string worst(const Findings& findings) {
  if (findings.worst.empty()) return "";
  const auto answer = [](const std::string& text) { return text.empty() ? "(none)" : shortened(text); };
  HtmlTable table{{findings.score, "label", "predicted", "text"}, {false, true, true, true}, {}};
  for (const Example& example : findings.worst)
    table.rows.push_back({fmt::format("{:.4g}", example.score), answer(example.wanted), answer(example.found),
                          shortened(example.text)});
  return fmt::format("<h2>Worst examples</h2>\n<p>{}</p>\n", escaped(findings.data)) + html_table(table);
}

}  // namespace

std::string findings_html(const Findings& findings) {
  std::string html;
  if (!findings.counts.empty()) html += balance(findings) + scores(findings);
  if (findings.calibration) html += calibration_text(*findings.calibration);
  if (findings.similarities) html += similarity_html(*findings.similarities);
  return html + confusion(findings) + worst(findings);
}

}  // namespace lathe
