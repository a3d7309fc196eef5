// The Yolo detection loss of one grid cell, in double precision: few numbers, but thresholds that decide about much.
#include <algorithm>
#include <cmath>

#include "kernels/loss/loss.h"

namespace openbnns {
namespace OPENBNNS_ISA {
namespace loss {
namespace {

// Places in a box; classes follow.
enum { kX, kY, kWidthOfBox, kHeightOfBox, kConfidence, kClasses };

double sigmoid(double x) {
  double e = std::exp(-std::fabs(x));
  return (x < 0 ? e : 1.0) / (1.0 + e);
}
double softplus(double x) { return std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x))); }
double product_or_zero(double factor, double x) { return factor == 0.0 ? 0.0 : factor * x; }

double predicted_centre(const YoloShape& yolo, double p) { return yolo.raw_centres ? p : sigmoid(p); }

// Length that two intervals share, each given by centre and size.
double shared(double centre_a, double size_a, double centre_b, double size_b) {
  double low = std::max(centre_a - size_a / 2, centre_b - size_b / 2);
  double high = std::min(centre_a + size_a / 2, centre_b + size_b / 2);
  return std::max(high - low, 0.0);
}

// Intersection over union of predicted and true box, 0 where there is no true box.
double intersection_over_union(const YoloShape& yolo, const float* anchor, const float* x, const float* t) {
  if (t[kConfidence] != 1.0f) return 0.0;
  double intersection = 1.0, predicted_area = 1.0, true_area = 1.0;
  for (int axis = 0; axis < 2; axis++) {
    double size = anchor[axis] * std::exp(static_cast<double>(x[kWidthOfBox + axis]));
    double true_size = t[kWidthOfBox + axis];
    intersection *= shared(predicted_centre(yolo, x[kX + axis]), size, t[kX + axis], true_size);
    predicted_area *= size;
    true_area *= true_size;
  }
  double all = predicted_area + true_area - intersection;
  return all > 0.0 ? intersection / all : 0.0;
}

// Where the slopes of one box go.
struct Slopes {
  float* dx;
  double scale;
  bool adds;
  void put(int64_t i, double slope) const {
    if (dx) dx[i] = static_cast<float>((adds ? dx[i] : 0.0) + scale * slope);
  }
};

// scale_xy (s - t)^2, s = sigmoid(p):  2 scale_xy (s - t) s (1 - s)
double centre_part(const YoloShape& yolo, const float* x, const float* t, const Slopes& slopes) {
  double total = 0;
  for (int i : {kX, kY}) {
    double s = predicted_centre(yolo, x[i]), error = s - t[i];
    total += yolo.scale_xy * error * error;
    slopes.put(i, 2.0 * yolo.scale_xy * error * (yolo.raw_centres ? 1.0 : s * (1.0 - s)));
  }
  return total;
}

// scale_wh huber(p - log(t / anchor)):  scale_wh clamp(p - log(t / anchor), -delta, delta)
double size_part(const YoloShape& yolo, double delta, const float* anchor, const float* x, const float* t,
                 const Slopes& slopes) {
  double total = 0;
  for (int axis = 0; axis < 2; axis++) {
    int i = kWidthOfBox + axis;
    double error = x[i] - std::log(static_cast<double>(t[i]) / anchor[axis]), size = std::fabs(error);
    total += yolo.scale_wh * (size <= delta ? 0.5 * error * error : delta * (size - 0.5 * delta));
    slopes.put(i, yolo.scale_wh * (error != error ? error : std::min(std::max(error, -delta), delta)));
  }
  return total;
}

// scale (-target log q - (1 - target) log(1 - q)), q = sigmoid(p):  scale (q - target)
double confidence_part(double scale, double target, double p, const Slopes& slopes) {
  slopes.put(kConfidence, scale * (sigmoid(p) - target));
  return scale * (product_or_zero(target, softplus(-p)) + product_or_zero(1.0 - target, softplus(p)));
}

// scale (-sum_k t_k log softmax(p)_k):  scale (softmax(p)_k sum(t) - t_k)
double class_part(const YoloShape& yolo, const float* x, const float* t, const Slopes& slopes) {
  if (yolo.box_size == kClasses) return 0.0;
  double largest = x[kClasses], sum_e = 0, sum_t = 0, products = 0;
  for (int64_t k = kClasses; k < yolo.box_size; k++) largest = std::fmax(largest, x[k]);
  for (int64_t k = kClasses; k < yolo.box_size; k++) {
    double d = x[k] - largest;
    sum_e += std::exp(d);
    sum_t += t[k];
    products += product_or_zero(t[k], d);
  }
  for (int64_t k = kClasses; k < yolo.box_size && slopes.dx; k++)
    slopes.put(k, yolo.scale_classification * (std::exp(x[k] - largest) / sum_e * sum_t - t[k]));
  return yolo.scale_classification * (sum_t * std::log(sum_e) - products);
}

}  // namespace

double yolo_cell(const YoloShape& yolo, float huber_delta, const float* anchors, const float* x, const float* t,
                 float* dx, float slope_scale, bool adds) {
  int64_t best = 0;
  double best_iou = -1.0;
  for (int64_t a = 0; a < yolo.anchors; a++) {
    double iou = intersection_over_union(yolo, anchors + 2 * a, x + a * yolo.box_size, t + a * yolo.box_size);
    if (iou > best_iou) best = a, best_iou = iou;
  }
  double total = 0;
  for (int64_t a = 0; a < yolo.anchors; a++) {
    const float *box = x + a * yolo.box_size, *truth = t + a * yolo.box_size, *anchor = anchors + 2 * a;
    Slopes slopes{dx ? dx + a * yolo.box_size : nullptr, slope_scale, adds};
    double iou = intersection_over_union(yolo, anchor, box, truth);
    if (dx && !adds) std::fill_n(slopes.dx, yolo.box_size, 0.0f);
    if (truth[kConfidence] == 1.0f && (iou >= yolo.object_minimum_iou || a == best)) {
      total += centre_part(yolo, box, truth, slopes) + size_part(yolo, huber_delta, anchor, box, truth, slopes) +
               confidence_part(yolo.scale_object, yolo.rescore ? iou : 1.0, box[kConfidence], slopes) +
               class_part(yolo, box, truth, slopes);
    } else if (iou <= yolo.no_object_maximum_iou) {
      total += confidence_part(yolo.scale_no_object, 0.0, box[kConfidence], slopes);
    }
  }
  return total;
}

}  // namespace loss
}  // namespace OPENBNNS_ISA
}  // namespace openbnns
