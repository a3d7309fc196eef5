#include "../../../include/openbnns/bnns.h"
