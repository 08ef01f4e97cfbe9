#include "gpu_worker/judge/shared_buffer.h"

#include <unistd.h>

#include <string>
#include <utility>

#include "tests/testing/catch.h"

namespace pike::gpu {
namespace {

TEST_CASE("SharedBuffer: its size cannot be changed through the descriptor") {
  std::string error;
  auto buffer = SharedBuffer::Create(10, error);
  REQUIRE(buffer);
  CHECK(buffer->size() >= 10);
  CHECK(ftruncate(buffer->fd(), 0) != 0);
  CHECK(ftruncate(buffer->fd(), 1 << 20) != 0);
  CHECK(pwrite(buffer->fd(), "x", 1, 0) == 1);
  CHECK(buffer->bytes()[0] == 'x');
}

TEST_CASE("SharedBuffer: moving leaves nothing behind") {
  std::string error;
  auto buffer = SharedBuffer::Create(1, error);
  REQUIRE(buffer);
  const SharedBuffer moved = std::move(*buffer);
  CHECK(moved.bytes() != nullptr);
  CHECK(buffer->bytes() == nullptr);
}

}  // namespace
}  // namespace pike::gpu
