#include "lathe/program/attrs.h"

#include <fmt/ranges.h>

#include "lathe/core/error.h"

namespace lathe {
namespace {

template <typename T>
const T& get(const Attrs& attrs, const std::string& name) {
  const auto it = attrs.find(name);
  if (it == attrs.end()) fail(ErrorCode::kInternal, "attribute {} is missing", name);
  const T* value = std::get_if<T>(&it->second);
  if (value == nullptr) fail(ErrorCode::kInternal, "attribute {} has another type", name);
  return *value;
}

}  // namespace

int64_t Attrs::i(const std::string& name) const { return get<int64_t>(*this, name); }
double Attrs::f(const std::string& name) const { return get<double>(*this, name); }
bool Attrs::b(const std::string& name) const { return get<bool>(*this, name); }
const std::string& Attrs::s(const std::string& name) const { return get<std::string>(*this, name); }
const Shape& Attrs::shape(const std::string& name) const { return get<Shape>(*this, name); }

const Numbers& Attrs::numbers(const std::string& name) const { return get<Numbers>(*this, name); }

std::string to_string(const Attrs& attrs) {
  std::string out;
  for (const auto& [name, attr] : attrs) {
    if (!out.empty()) out += ' ';
    out += name + '=';
    if (const auto* i = std::get_if<int64_t>(&attr)) out += fmt::format("{}", *i);
    if (const auto* f = std::get_if<double>(&attr)) out += fmt::format("{}", *f);
    if (const auto* b = std::get_if<bool>(&attr)) out += *b ? "true" : "false";
    if (const auto* s = std::get_if<std::string>(&attr)) out += *s;
    if (const auto* d = std::get_if<Shape>(&attr)) out += to_string(*d);
    if (const auto* n = std::get_if<Numbers>(&attr)) out += fmt::format("{}", *n);
  }
  return out;
}

}  // namespace lathe
