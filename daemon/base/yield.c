#include "daemon/base/yield.h"

_Thread_local struct yielder *yield_now;
