#pragma once
#include <stdlib.h>

#include <clocale>
#include <fstream>
#include <string>

#include "lathe/core/test_folder.h"

namespace lathe {

/// For tests: as long as it lives, the process has a locale with a decimal comma, as a program with a
/// graphical interface has in Germany: an installed one or, where glibc's localedef is, one made for this.
class CommaLocale {
 public:
  CommaLocale() {
    for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "fr_FR.utf8"})
      if (std::setlocale(LC_NUMERIC, name) != nullptr) return;
    std::ofstream(folder_ / "source")
        << "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \"\"\ngrouping -1\nEND LC_NUMERIC\n";
    // Of the other categories, which this lacks, it warns.
    const std::string make =
        "localedef -c -i '" + folder_ / "source" + "' '" + folder_ / "comma" + "' > /dev/null 2>&1";
    [[maybe_unused]] const int status = std::system(make.c_str());
    setenv("LOCPATH", folder_.path().c_str(), 1);
    std::setlocale(LC_NUMERIC, "comma");
    unsetenv("LOCPATH");
  }
  ~CommaLocale() { std::setlocale(LC_NUMERIC, before_.c_str()); }
  CommaLocale(const CommaLocale&) = delete;
  CommaLocale& operator=(const CommaLocale&) = delete;

  /// Whether there is one.
  explicit operator bool() const { return *std::localeconv()->decimal_point == ','; }

 private:
  std::string before_ = std::setlocale(LC_NUMERIC, nullptr);
  TestFolder folder_;
};

}  // namespace lathe
