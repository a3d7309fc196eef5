#pragma once
#include <cstdint>

#include "common/fields.h"

namespace openbnns {

// X: [planes][height][width], Y: [boxes][planes][rows][columns], one run each. Output row r of box b mixes the image
// rows top and top + 1 with the weights 1 - down and down, index b * rows + r; columns likewise. Where a position is
// not inside the image, Y is the extrapolation value and no gradient flows.
struct CropResizeShape {
  int64_t boxes, planes, height, width, rows, columns;
  float extrapolation;
  Table<int64_t> top;
  Table<float> down;
  Table<bool> row_inside;
  Table<int64_t> left;
  Table<float> across;
  Table<bool> column_inside;
  OPENBNNS_FIELDS(boxes, planes, height, width, rows, columns, extrapolation, top, down, row_inside, left, across,
                  column_inside)
};

}  // namespace openbnns
