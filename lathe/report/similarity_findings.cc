#include "lathe/report/similarity_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lathe/report/html.h"

namespace lathe {
namespace {

constexpr size_t kSteps = 20;  // of the histogram, each 0.1 wide
constexpr int kWidth = 640, kHeight = 160, kLegend = 20;

using Counts = std::array<int64_t, kSteps>;

size_t step_of(float similarity) {
  const double place = (std::clamp(static_cast<double>(similarity), -1.0, 1.0) + 1) / 2 * kSteps;
  return std::min(static_cast<size_t>(place), kSteps - 1);
}

/// Bars of low targets and of high ones side by side, each as high as its share of its kind.
std::string histogram(const std::string& origin, const std::array<Counts, 2>& kinds) {
  std::array<int64_t, 2> all = {};
  double highest = 0;
  for (size_t k = 0; k < 2; ++k) {
    for (const int64_t count : kinds[k]) all[k] += count;
    for (const int64_t count : kinds[k])
      if (count > 0) highest = std::max(highest, static_cast<double>(count) / static_cast<double>(all[k]));
  }
  if (highest == 0) return "";
  std::string html = fmt::format(
      "<h2>Similarities</h2>\n<p>{}</p>\n<figure><figcaption><span class=\"k0\">&#9632; {} pairs with a low "
      "target</span> <span class=\"k1\">&#9632; {} with a high one</span></figcaption>\n"
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"similarities\">\n",
      escaped(origin), all[0], all[1], kWidth, kHeight + kLegend);
  const double step = static_cast<double>(kWidth) / kSteps;
  for (size_t i = 0; i < kSteps; ++i)
    for (size_t k = 0; k < 2; ++k) {
      if (kinds[k][i] == 0) continue;
      const double part = static_cast<double>(kinds[k][i]) / static_cast<double>(all[k]);
      const double height = kHeight * part / highest,
                   x = static_cast<double>(i) * step + static_cast<double>(k) * step / 2;
      html += fmt::format(
          "<rect class=\"k{}\" style=\"fill:currentColor\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
          "height=\"{:.1f}\">"
          "<title>{:.1f} to {:.1f}: {}</title></rect>\n",
          k, x, kHeight - height, step / 2 - 1, height, -1 + 0.1 * static_cast<double>(i),
          -0.9 + 0.1 * static_cast<double>(i), kinds[k][i]);
    }
  for (const double at : {-1.0, -0.5, 0.0, 0.5, 1.0})
    html += fmt::format("<text x=\"{:.0f}\" y=\"{}\" text-anchor=\"{}\">{:g}</text>\n", (at + 1) / 2 * kWidth,
                        kHeight + kLegend - 4,
                        at < -0.9  ? "start"
                        : at > 0.9 ? "end"
                                   : "middle",
                        at);
  return html + "</svg></figure>\n";
}

constexpr size_t kWorst = 20;
constexpr size_t kTextBytes = 300;  // of an example

std::string cut(const std::string& text) {
  if (text.size() <= kTextBytes) return text;
  size_t end = kTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

/// Pairs as they come, and which of them is far from its target.
class Pairs {
 public:
  Pairs(const TextColumns& columns, Vectors vectors, Similarity similarity)
      : columns_(columns), vectors_(vectors), similarity_(similarity) {}

  /// The text of column 0 in a row, and that of another column in a row.
  void add(size_t row, size_t column, size_t other_row, double target, std::string words) {
    const size_t count = columns_.texts.size();
    const double found = similarity_of(similarity_, vectors_.row(static_cast<int64_t>(row * count)),
                                       vectors_.row(static_cast<int64_t>(other_row * count + column)));
    out_.similarity.push_back(static_cast<float>(found));
    out_.target.push_back(target);
    all_.push_back({row, column, other_row, std::move(words)});
  }

  SimilarityFindings finish() {
    std::vector<size_t> order(all_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto badness = [&](size_t i) {
      const double off = std::abs(static_cast<double>(out_.similarity[i]) - out_.target[i]);
      return std::isfinite(off) ? off : 1e30;
    };
    const size_t most = std::min(kWorst, order.size());
    std::partial_sort(
        order.begin(), order.begin() + static_cast<ptrdiff_t>(most), order.end(),
        [&](size_t a, size_t b) { return std::pair(-badness(a), a) < std::pair(-badness(b), b); });
    for (size_t i = 0; i < most; ++i) {
      const Pair& pair = all_[order[i]];
      out_.worst.push_back({columns_.places[pair.row], cut(columns_.texts[0][pair.row]),
                            cut(columns_.texts[pair.column][pair.other_row]), out_.similarity[order[i]],
                            pair.words});
    }
    out_.origin = columns_.origin;
    return std::move(out_);
  }

 private:
  struct Pair {
    size_t row, column, other_row;
    std::string words;
  };
  const TextColumns& columns_;
  Vectors vectors_;
  Similarity similarity_;
  SimilarityFindings out_;
  std::vector<Pair> all_;
};

}  // namespace

SimilarityFindings similarity_findings(const TextColumns& columns, Vectors vectors, Similarity similarity) {
  Pairs pairs(columns, vectors, similarity);
  double least = 0, most = 1;
  for (const double target : columns.targets) least = std::min(least, target), most = std::max(most, target);
  for (size_t row = 0; row < columns.size(); ++row) {
    if (!columns.target_name.empty()) {
      const double target = columns.targets[row];
      pairs.add(row, 1, row, (target - least) / (most - least), fmt::format("{:g}", target));
      continue;
    }
    pairs.add(row, 1, row, 1, "positive");
    if (columns.texts.size() > 2)
      pairs.add(row, 2, row, 0, "negative");
    else if (columns.size() > 1)
      pairs.add(row, 1, (row + 1) % columns.size(), 0, "negative");
  }
  return pairs.finish();
}

std::string similarity_html(const SimilarityFindings& findings) {
  std::array<Counts, 2> kinds = {};
  for (size_t i = 0; i < std::min(findings.similarity.size(), findings.target.size()); ++i)
    if (std::isfinite(findings.similarity[i]))
      ++kinds[findings.target[i] >= 0.5 ? 1 : 0][step_of(findings.similarity[i])];
  std::string html = histogram(findings.origin, kinds);
  if (findings.worst.empty()) return html;
  HtmlTable table{
      {"place", "similarity", "target", "first text", "second text"}, {false, false, true, true, true}, {}};
  for (const PairExample& pair : findings.worst)
    table.rows.push_back(
        {pair.place, fmt::format("{:.3f}", pair.similarity), pair.target, pair.first, pair.second});
  return html + fmt::format("<h2>Worst pairs</h2>\n<p>{}</p>\n", escaped(findings.origin)) +
         html_table(table);
}

}  // namespace lathe
