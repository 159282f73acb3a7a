#pragma once
#include <string>

#include "lathe/report/findings.h"

namespace lathe {

/// What an evaluation found as HTML: balance and scores of the labels, calibration, confusion matrix, worst
/// examples.
std::string findings_html(const Findings& findings);

}  // namespace lathe
