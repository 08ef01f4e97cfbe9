#include "common/base/digest.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>

#include <absl/strings/escaping.h>

#include "common/base/check.h"

namespace pike {
namespace {
EVP_MD_CTX* Context(void* context) {
  return static_cast<EVP_MD_CTX*>(context);
}
}  // namespace

Sha256Stream::Sha256Stream() : context_(EVP_MD_CTX_new()) {
  PIKE_CHECK(context_ != nullptr);
  PIKE_CHECK(EVP_DigestInit_ex(Context(context_), EVP_sha256(), nullptr) == 1);
}

Sha256Stream::~Sha256Stream() {
  EVP_MD_CTX_free(Context(context_));
}

void Sha256Stream::Update(absl::string_view bytes) {
  PIKE_CHECK(EVP_DigestUpdate(Context(context_), bytes.data(), bytes.size()) == 1);
}

std::string Sha256Stream::FinishHex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  PIKE_CHECK(EVP_DigestFinal_ex(Context(context_), digest.data(), &size) == 1);
  std::string bytes(size, '\0');
  std::copy_n(digest.begin(), size, bytes.begin());
  return absl::BytesToHexString(bytes);
}

std::string Sha256Hex(absl::string_view bytes) {
  Sha256Stream stream;
  stream.Update(bytes);
  return stream.FinishHex();
}

bool IsSha256Hex(absl::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace pike
