// Crop-resize: boxes sampled bilinearly out of images.
//
// X: [batch][planes][height][width] images, one sample is all of them; Y: [boxes][planes][rows][columns]. The positions
// come with the plan: for every box and output row (column) the cell above (to the left), the weight of the next one,
// and whether the position lies inside the image.
#include <vector>

#include "common/pieces.h"
#include "kernels/kernels.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace {

class CropResizePlan : public Plan {
 public:
  explicit CropResizePlan(const CropResizeShape& shape) : s_(shape) {}

  // y = (1-v)(1-h) x[top][left] + (1-v) h x[top][right] + v (1-h) x[bottom][left] + v h x[bottom][right]
  void forward(const Call& call) override {
    const int64_t items = s_.boxes * s_.planes * s_.rows;
    const int workers = workers_for(call, items * s_.columns);
    const int64_t together = rows_together(items, s_.columns, workers);
    dynamic_items(workers, (items + together - 1) / together, [&](int64_t item) {
      for (int64_t r = item * together, end = std::min(items, r + together); r < end; r++) {
        const int64_t row = r % s_.rows, plane = r / s_.rows % s_.planes, box = r / (s_.rows * s_.planes);
        sample_row(call.address[X] + plane * s_.height * s_.width, box, row, call.address[Y] + r * s_.columns);
      }
    });
  }

  // dx[cell] += weight * dy, plane by plane: boxes may overlap, so one thread owns a plane and takes them in order.
  void backward(const Call& call) override {
    if (!call.address[DX]) return;
    const int64_t plane_size = s_.height * s_.width, work = s_.boxes * s_.planes * s_.rows * s_.columns;
    dynamic_items(workers_for(call, work + s_.planes * plane_size), s_.planes, [&](int64_t plane) {
      float* dx = call.address[DX] + plane * plane_size;
      if (!call.adds(DX)) std::fill_n(dx, plane_size, 0.0f);
      for (int64_t box = 0; box < s_.boxes; box++)
        for (int64_t row = 0; row < s_.rows; row++)
          spread_row(dx, box, row, call.address[DY] + ((box * s_.planes + plane) * s_.rows + row) * s_.columns);
    });
  }

 private:
  struct Corners {
    int64_t left, right;
    float h;
  };

  Corners column(int64_t box, int64_t c) const {
    const auto at = static_cast<size_t>(box * s_.columns + c);
    return {s_.left[at], std::min(s_.left[at] + 1, s_.width - 1), s_.across[at]};
  }

  void sample_row(const float* x, int64_t box, int64_t row, float* y) const {
    const auto at = static_cast<size_t>(box * s_.rows + row);
    if (!s_.row_inside[at]) {
      std::fill_n(y, s_.columns, s_.extrapolation);
      return;
    }
    const float v = s_.down[at];
    const float *top = x + s_.top[at] * s_.width, *bottom = x + std::min(s_.top[at] + 1, s_.height - 1) * s_.width;
    for (int64_t c = 0; c < s_.columns; c++) {
      const Corners k = column(box, c);
      const float sampled = (1 - v) * (1 - k.h) * top[k.left] + (1 - v) * k.h * top[k.right] +
                            v * (1 - k.h) * bottom[k.left] + v * k.h * bottom[k.right];
      y[c] = s_.column_inside[static_cast<size_t>(box * s_.columns + c)] ? sampled : s_.extrapolation;
    }
  }

  void spread_row(float* dx, int64_t box, int64_t row, const float* dy) const {
    const auto at = static_cast<size_t>(box * s_.rows + row);
    if (!s_.row_inside[at]) return;
    const float v = s_.down[at];
    float *top = dx + s_.top[at] * s_.width, *bottom = dx + std::min(s_.top[at] + 1, s_.height - 1) * s_.width;
    for (int64_t c = 0; c < s_.columns; c++) {
      if (!s_.column_inside[static_cast<size_t>(box * s_.columns + c)]) continue;
      const Corners k = column(box, c);
      top[k.left] += (1 - v) * (1 - k.h) * dy[c];
      top[k.right] += (1 - v) * k.h * dy[c];
      bottom[k.left] += v * (1 - k.h) * dy[c];
      bottom[k.right] += v * k.h * dy[c];
    }
  }

  const CropResizeShape s_;
};

}  // namespace

std::unique_ptr<Plan> make_crop_resize(const CropResizeShape& shape) { return std::make_unique<CropResizePlan>(shape); }

}  // namespace OPENBNNS_ISA
}  // namespace openbnns
