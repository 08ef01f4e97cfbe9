#pragma once

#include <string>

#include <absl/strings/string_view.h>

namespace pike {

// SHA-256 of `bytes` in lower-case hex (64 characters).
std::string Sha256Hex(absl::string_view bytes);

// Whether `text` has the form of a digest.
bool IsSha256Hex(absl::string_view text);

// SHA-256 over bytes that arrive in pieces. Not thread-safe.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;

  void Update(absl::string_view bytes);
  // Call once, last.
  std::string FinishHex();

 private:
  void* context_;  // EVP_MD_CTX, kept out of the header
};

}  // namespace pike
