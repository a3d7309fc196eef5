#pragma once
#include <cstdint>
#include <optional>

#include "common/fields.h"

namespace openbnns {

// x, labels and dx: [width]; weights: none, one for everything (stride 0), one per sample (stride 1) or one per element
// (stride width); out: one value, or with reduction None one per sample or per element, packed. In backward the
// upstream gradient has the form of out. Formulas: docs/filters/loss.md.
enum LossSlot {
  kLossInput,
  kLossLabels,
  kLossWeights,
  kLossOutput,
  kLossInputGradient,
  kLossOutputGradient,
  kLossAnchors
};

// One sample is [cells][anchors][box_size], a box being x, y, w, h, confidence, classes; slot kLossAnchors:
// [anchors][2].
struct YoloShape {
  int64_t cells = 0, anchors = 0, box_size = 0;
  float scale_xy = 0, scale_wh = 0, scale_object = 0, scale_no_object = 0, scale_classification = 0;
  float object_minimum_iou = 0, no_object_maximum_iou = 0;
  bool rescore = false;      // the confidence target of an object is its IOU instead of 1
  bool raw_centres = false;  // x, y are compared as they are instead of as sigmoids
  OPENBNNS_FIELDS(cells, anchors, box_size, scale_xy, scale_wh, scale_object, scale_no_object, scale_classification,
                  object_minimum_iou, no_object_maximum_iou, rescore, raw_centres)
};

struct LossShape {
  int function = 0;   // BNNSLossFunction
  int reduction = 0;  // BNNSLossReductionFunction
  int64_t width = 0;
  float label_smooth = 0, huber_delta = 1, log_epsilon = 0;
  bool divide_by_classes = false;      // softmax cross entropy has a factor 1 / width
  bool plain_cosine_gradient = false;  // the gradient of the cosine distance keeps its radial part
  std::optional<YoloShape> yolo;       // of that function
  OPENBNNS_FIELDS(function, reduction, width, label_smooth, huber_delta, log_epsilon, divide_by_classes,
                  plain_cosine_gradient, yolo)
};

}  // namespace openbnns
