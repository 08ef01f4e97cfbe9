#pragma once

#include <functional>
#include <memory>

#include "coordinator/store/store.h"

namespace pike::coordinator {

// One kind of store under test. `open` opens it on state that outlives the store object: calling
// it again after dropping the first store is a restart.
struct StoreUnderTest {
  const char* name;
  std::function<std::unique_ptr<Store>()> open;
};

// Checks what every Store must do, beginning with an empty one. Uses Catch2's assertions.
void CheckStoreContract(const StoreUnderTest& under_test);

}  // namespace pike::coordinator
