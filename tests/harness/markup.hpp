// Is markup well-formed? What a strict XML reader asks, for pages and XML reports.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

namespace moe::harness {

/// Tags are balanced, attributes quoted, text escaped: what a strict XML reader asks.
inline bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  for (const char c : xml)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') return false;
  for (std::size_t i = 0; i < xml.size(); ++i) {
    if (xml[i] == '&' && xml.substr(i, 6).find(';') == std::string::npos) return false;
    if (xml[i] != '<') continue;
    const std::size_t end = xml.find('>', i);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(i + 1, end - i - 1);
    if (tag.find('<') != std::string::npos) return false;
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return false;
    const std::string word = tag.substr(tag[0] == '/', tag.find_first_of(" />", 1) - (tag[0] == '/'));
    if (tag[0] == '/') {
      if (open.empty() || open.back() != word) return false;
      open.pop_back();
    } else if (tag[0] != '?' && tag[0] != '!' && tag.back() != '/') {
      open.push_back(word);
    }
    i = end;
  }
  return open.empty();
}

}  // namespace moe::harness
