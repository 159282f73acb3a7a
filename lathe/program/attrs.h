#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "lathe/core/shape.h"

namespace lathe {

using Numbers = std::vector<double>;

/// A constant of a node, fixed when the program is built.
using Attr = std::variant<int64_t, double, bool, std::string, Shape, Numbers>;

/// Named attributes.  Getters throw kInternal if the name is missing or of another type.
class Attrs : public std::map<std::string, Attr> {
 public:
  using map::map;
  int64_t i(const std::string& name) const;
  double f(const std::string& name) const;
  bool b(const std::string& name) const;
  const std::string& s(const std::string& name) const;
  const Shape& shape(const std::string& name) const;
  const Numbers& numbers(const std::string& name) const;
};

/// "eps=1e-12 heads=12 frequencies=[1, 0.5]"
std::string to_string(const Attrs& attrs);

}  // namespace lathe
