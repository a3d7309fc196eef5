/// An optimizer: a rule that changes parameters by their gradients.
public protocol BNNSOptimizer {
    /// The rule, as C has it.
    var bnnsOptimizerFunction: BNNSOptimizerFunction { get }

    /// Accumulators that each parameter needs.
    var accumulatorCountMultiplier: Int { get }

    /// Change parameters by their gradients.
    func step(
        parameters: [BNNSNDArrayDescriptor], gradients: [BNNSNDArrayDescriptor], accumulators: [BNNSNDArrayDescriptor],
        filterParameters: BNNSFilterParameters?
    ) throws
}

/// An optimizer that can describe itself to C.
private protocol DescribedOptimizer: BNNSOptimizer {
    /// Call with the struct of C.
    func withFields<Result>(_ body: (UnsafeRawPointer) -> Result) -> Result
}

extension BNNSOptimizer {
    /// Change parameters by their gradients. Accumulators keep what the rule remembers between steps:
    /// `accumulatorCountMultiplier` for each parameter, all 0 at first.
    public func step(
        parameters: [BNNSNDArrayDescriptor], gradients: [BNNSNDArrayDescriptor], accumulators: [BNNSNDArrayDescriptor],
        filterParameters: BNNSFilterParameters? = nil
    ) throws {
        guard let rule = self as? any DescribedOptimizer, parameters.count == gradients.count, !parameters.isEmpty,
            accumulators.count >= parameters.count * accumulatorCountMultiplier
        else { throw BNNS.Error.optimizerStepFail }
        let status = rule.withFields { fields in
            parameters.passed { p in
                gradients.passed { g in
                    accumulators.passedIfWanted(count: 1) { a in
                        filterParameters.passed { filter in
                            var sources = g.map { UnsafePointer($0) }
                            return BNNSOptimizerStep(
                                bnnsOptimizerFunction, fields, parameters.count, p.baseAddress!, &sources,
                                accumulators.isEmpty ? nil : a, filter)
                        }
                    }
                }
            }
        }
        try BNNS.check(status, .optimizerStepFail)
    }
}

extension BNNS {
    /// How the gradients of an optimizer are clipped: to bounds, as the first initializers have it, or as the later ones have it.
    fileprivate enum Clipping {
        case bounds(ClosedRange<Float>?)
        case chosen(BNNS.GradientClipping)

        /// What clips, whichever initializer it came from.
        var clipping: BNNS.GradientClipping {
            get {
                switch self {
                case .bounds(let bounds): return bounds.map { .byValue(bounds: $0) } ?? .none
                case .chosen(let clipping): return clipping
                }
            }
            set { self = .chosen(newValue) }
        }

        var bounds: ClosedRange<Float>? {
            get {
                if case .byValue(let bounds) = clipping { return bounds }
                return nil
            }
            set { self = .bounds(newValue) }
        }

        /// Whether C has the function with all ways of clipping.
        var isChosen: Bool {
            if case .chosen = self { return true }
            return false
        }

        /// Fields of the functions that clip to bounds only.
        var simpleFields: (clips: Bool, min: Float, max: Float) {
            guard let bounds else { return (false, 0, 0) }
            return (true, bounds.lowerBound, bounds.upperBound)
        }

        /// Fields of the functions with all ways of clipping.
        var fields: (function: BNNSOptimizerClippingFunction, min: Float, max: Float, maxNorm: Float, useNorm: Float) {
            switch clipping {
            case .none: return (BNNSOptimizerClippingNone, 0, 0, 0, 0)
            case .byValue(let bounds): return (BNNSOptimizerClippingByValue, bounds.lowerBound, bounds.upperBound, 0, 0)
            case .byNorm(let threshold): return (BNNSOptimizerClippingByNorm, 0, 0, threshold, 0)
            case .byGlobalNorm(let threshold, let norm): return (BNNSOptimizerClippingByGlobalNorm, 0, 0, threshold, norm)
            }
        }
    }

    /// Adam.
    public struct AdamOptimizer: BNNSOptimizer {
        public var learningRate: Float
        public var beta1: Float
        public var beta2: Float
        public var timeStep: Float
        public var epsilon: Float
        public var gradientScale: Float
        public var regularizationScale: Float
        public var regularizationFunction: BNNSOptimizerRegularizationFunction
        public var usesAMSGrad: Bool
        private var clipping: Clipping

        public init(
            learningRate: Float, beta1: Float, beta2: Float, timeStep: Float, epsilon: Float, gradientScale: Float,
            regularizationScale: Float, clipsGradientsTo gradientBounds: ClosedRange<Float>? = nil,
            regularizationFunction: BNNSOptimizerRegularizationFunction
        ) {
            self.learningRate = learningRate
            self.beta1 = beta1
            self.beta2 = beta2
            self.timeStep = timeStep
            self.epsilon = epsilon
            self.gradientScale = gradientScale
            self.regularizationScale = regularizationScale
            self.regularizationFunction = regularizationFunction
            usesAMSGrad = false
            clipping = .bounds(gradientBounds)
        }

        public init(
            learningRate: Float = 0.001, beta1: Float = 0.9, beta2: Float = 0.999, timeStep: Float, epsilon: Float = 1e-8,
            gradientScale: Float, regularizationScale: Float, gradientClipping: BNNS.GradientClipping,
            regularizationFunction: BNNSOptimizerRegularizationFunction, usesAMSGrad: Bool = false
        ) {
            self.init(
                learningRate: learningRate, beta1: beta1, beta2: beta2, timeStep: timeStep, epsilon: epsilon,
                gradientScale: gradientScale, regularizationScale: regularizationScale,
                regularizationFunction: regularizationFunction)
            self.usesAMSGrad = usesAMSGrad
            clipping = .chosen(gradientClipping)
        }

        /// Bounds that gradients are clipped to, if they are.
        public var gradientBounds: ClosedRange<Float>? {
            get { clipping.bounds }
            set { clipping.bounds = newValue }
        }

        /// How gradients are clipped.
        public var gradientClipping: BNNS.GradientClipping {
            get { clipping.clipping }
            set { clipping.clipping = newValue }
        }

        /// Two, or three with AMSGrad.
        public var accumulatorCountMultiplier: Int { usesAMSGrad ? 3 : 2 }

        public var bnnsOptimizerFunction: BNNSOptimizerFunction {
            switch (usesAMSGrad, clipping.isChosen) {
            case (false, false): return BNNSOptimizerFunctionAdam
            case (false, true): return BNNSOptimizerFunctionAdamWithClipping
            case (true, false): return BNNSOptimizerFunctionAdamAMSGrad
            case (true, true): return BNNSOptimizerFunctionAdamAMSGradWithClipping
            }
        }
    }

    /// Adam with decoupled weight decay.
    public struct AdamWOptimizer: BNNSOptimizer {
        public var learningRate: Float
        public var beta1: Float
        public var beta2: Float
        public var timeStep: Float
        public var epsilon: Float
        public var gradientScale: Float
        public var weightDecay: Float
        public var gradientClipping: BNNS.GradientClipping
        private let usesAMSGrad: Bool

        public init(
            learningRate: Float = 0.001, beta1: Float = 0.9, beta2: Float = 0.999, timeStep: Float = 1, epsilon: Float = 1e-8,
            gradientScale: Float, weightDecay: Float = 1e-2, gradientClipping: BNNS.GradientClipping, usesAMSGrad: Bool = false
        ) {
            self.learningRate = learningRate
            self.beta1 = beta1
            self.beta2 = beta2
            self.timeStep = timeStep
            self.epsilon = epsilon
            self.gradientScale = gradientScale
            self.weightDecay = weightDecay
            self.gradientClipping = gradientClipping
            self.usesAMSGrad = usesAMSGrad
        }

        /// Two, or three with AMSGrad.
        public var accumulatorCountMultiplier: Int { usesAMSGrad ? 3 : 2 }

        public var bnnsOptimizerFunction: BNNSOptimizerFunction {
            usesAMSGrad ? BNNSOptimizerFunctionAdamWAMSGradWithClipping : BNNSOptimizerFunctionAdamWWithClipping
        }
    }

    /// RMSProp.
    public struct RMSPropOptimizer: BNNSOptimizer {
        public var learningRate: Float
        public var alpha: Float
        public var epsilon: Float
        public var centered: Bool
        public var momentum: Float
        public var gradientScale: Float
        public var regularizationScale: Float
        public var regularizationFunction: BNNSOptimizerRegularizationFunction
        private var clipping: Clipping

        public init(
            learningRate: Float, alpha: Float, epsilon: Float, centered: Bool, momentum: Float, gradientScale: Float,
            regularizationScale: Float, clipsGradientsTo gradientBounds: ClosedRange<Float>? = nil,
            regularizationFunction: BNNSOptimizerRegularizationFunction
        ) {
            self.learningRate = learningRate
            self.alpha = alpha
            self.epsilon = epsilon
            self.centered = centered
            self.momentum = momentum
            self.gradientScale = gradientScale
            self.regularizationScale = regularizationScale
            self.regularizationFunction = regularizationFunction
            clipping = .bounds(gradientBounds)
        }

        public init(
            learningRate: Float = 1e-2, alpha: Float = 0.99, epsilon: Float = 1e-8, centered: Bool, momentum: Float = 0,
            gradientScale: Float, regularizationScale: Float, gradientClipping: BNNS.GradientClipping,
            regularizationFunction: BNNSOptimizerRegularizationFunction
        ) {
            self.init(
                learningRate: learningRate, alpha: alpha, epsilon: epsilon, centered: centered, momentum: momentum,
                gradientScale: gradientScale, regularizationScale: regularizationScale,
                regularizationFunction: regularizationFunction)
            clipping = .chosen(gradientClipping)
        }

        /// Bounds that gradients are clipped to, if they are.
        public var gradientBounds: ClosedRange<Float>? {
            get { clipping.bounds }
            set { clipping.bounds = newValue }
        }

        /// How gradients are clipped.
        public var gradientClipping: BNNS.GradientClipping {
            get { clipping.clipping }
            set { clipping.clipping = newValue }
        }

        /// One, and one more each for `centered` and for momentum.
        public var accumulatorCountMultiplier: Int { 1 + (centered ? 1 : 0) + (momentum == 0 ? 0 : 1) }

        public var bnnsOptimizerFunction: BNNSOptimizerFunction {
            clipping.isChosen ? BNNSOptimizerFunctionRMSPropWithClipping : BNNSOptimizerFunctionRMSProp
        }
    }

    /// Stochastic gradient descent, with momentum or without.
    public struct SGDMomentumOptimizer: BNNSOptimizer {
        public var learningRate: Float
        public var momentum: Float
        public var gradientScale: Float
        public var regularizationScale: Float
        public var usesNesterovMomentum: Bool
        public var regularizationFunction: BNNSOptimizerRegularizationFunction
        public var sgdMomentumVariant: BNNSOptimizerSGDMomentumVariant
        private var clipping: Clipping

        public init(
            learningRate: Float, momentum: Float, gradientScale: Float, regularizationScale: Float,
            clipsGradientsTo gradientBounds: ClosedRange<Float>? = nil, usesNestrovMomentum: Bool,
            regularizationFunction: BNNSOptimizerRegularizationFunction, sgdMomentumVariant: BNNSOptimizerSGDMomentumVariant
        ) {
            self.init(
                learningRate: learningRate, momentum: momentum, gradientScale: gradientScale,
                regularizationScale: regularizationScale, clipsGradientsTo: gradientBounds,
                usesNesterovMomentum: usesNestrovMomentum, regularizationFunction: regularizationFunction,
                sgdMomentumVariant: sgdMomentumVariant)
        }

        public init(
            learningRate: Float, momentum: Float, gradientScale: Float, regularizationScale: Float,
            clipsGradientsTo gradientBounds: ClosedRange<Float>? = nil, usesNesterovMomentum: Bool,
            regularizationFunction: BNNSOptimizerRegularizationFunction, sgdMomentumVariant: BNNSOptimizerSGDMomentumVariant
        ) {
            self.learningRate = learningRate
            self.momentum = momentum
            self.gradientScale = gradientScale
            self.regularizationScale = regularizationScale
            self.usesNesterovMomentum = usesNesterovMomentum
            self.regularizationFunction = regularizationFunction
            self.sgdMomentumVariant = sgdMomentumVariant
            clipping = .bounds(gradientBounds)
        }

        public init(
            learningRate: Float, momentum: Float = 0, gradientScale: Float, regularizationScale: Float,
            gradientClipping: BNNS.GradientClipping, usesNesterovMomentum: Bool = false,
            regularizationFunction: BNNSOptimizerRegularizationFunction, sgdMomentumVariant: BNNSOptimizerSGDMomentumVariant
        ) {
            self.init(
                learningRate: learningRate, momentum: momentum, gradientScale: gradientScale,
                regularizationScale: regularizationScale, usesNesterovMomentum: usesNesterovMomentum,
                regularizationFunction: regularizationFunction, sgdMomentumVariant: sgdMomentumVariant)
            clipping = .chosen(gradientClipping)
        }

        /// Bounds that gradients are clipped to, if they are.
        public var gradientBounds: ClosedRange<Float>? {
            get { clipping.bounds }
            set { clipping.bounds = newValue }
        }

        /// How gradients are clipped.
        public var gradientClipping: BNNS.GradientClipping {
            get { clipping.clipping }
            set { clipping.clipping = newValue }
        }

        /// `usesNesterovMomentum`, as it was spelled at first.
        public var usesNestrovMomentum: Bool {
            get { usesNesterovMomentum }
            set { usesNesterovMomentum = newValue }
        }

        /// One, or none without momentum.
        public var accumulatorCountMultiplier: Int { momentum == 0 ? 0 : 1 }

        public var bnnsOptimizerFunction: BNNSOptimizerFunction {
            clipping.isChosen ? BNNSOptimizerFunctionSGDMomentumWithClipping : BNNSOptimizerFunctionSGDMomentum
        }
    }
}

extension BNNS.AdamOptimizer: DescribedOptimizer {
    fileprivate func withFields<Result>(_ body: (UnsafeRawPointer) -> Result) -> Result {
        if clipping.isChosen {
            let clip = clipping.fields
            var fields = BNNSOptimizerAdamWithClippingFields(
                learning_rate: learningRate, beta1: beta1, beta2: beta2, time_step: timeStep, epsilon: epsilon,
                gradient_scale: gradientScale, regularization_scale: regularizationScale,
                regularization_func: regularizationFunction, clipping_func: clip.function, clip_gradients_min: clip.min,
                clip_gradients_max: clip.max, clip_gradients_max_norm: clip.maxNorm, clip_gradients_use_norm: clip.useNorm)
            return body(&fields)
        }
        let clip = clipping.simpleFields
        var fields = BNNSOptimizerAdamFields(
            learning_rate: learningRate, beta1: beta1, beta2: beta2, time_step: timeStep, epsilon: epsilon,
            gradient_scale: gradientScale, regularization_scale: regularizationScale, clip_gradients: clip.clips,
            clip_gradients_min: clip.min, clip_gradients_max: clip.max, regularization_func: regularizationFunction)
        return body(&fields)
    }
}

extension BNNS.AdamWOptimizer: DescribedOptimizer {
    /// C has the weight decay where Adam has the scale of its regularization.
    fileprivate func withFields<Result>(_ body: (UnsafeRawPointer) -> Result) -> Result {
        let clip = BNNS.Clipping.chosen(gradientClipping).fields
        var fields = BNNSOptimizerAdamWithClippingFields(
            learning_rate: learningRate, beta1: beta1, beta2: beta2, time_step: timeStep, epsilon: epsilon,
            gradient_scale: gradientScale, regularization_scale: weightDecay,
            regularization_func: BNNSOptimizerRegularizationNone, clipping_func: clip.function, clip_gradients_min: clip.min,
            clip_gradients_max: clip.max, clip_gradients_max_norm: clip.maxNorm, clip_gradients_use_norm: clip.useNorm)
        return body(&fields)
    }
}

extension BNNS.RMSPropOptimizer: DescribedOptimizer {
    fileprivate func withFields<Result>(_ body: (UnsafeRawPointer) -> Result) -> Result {
        if clipping.isChosen {
            let clip = clipping.fields
            var fields = BNNSOptimizerRMSPropWithClippingFields(
                learning_rate: learningRate, alpha: alpha, epsilon: epsilon, centered: centered, momentum: momentum,
                gradient_scale: gradientScale, regularization_scale: regularizationScale,
                regularization_func: regularizationFunction, clipping_func: clip.function, clip_gradients_min: clip.min,
                clip_gradients_max: clip.max, clip_gradients_max_norm: clip.maxNorm, clip_gradients_use_norm: clip.useNorm)
            return body(&fields)
        }
        let clip = clipping.simpleFields
        var fields = BNNSOptimizerRMSPropFields(
            learning_rate: learningRate, alpha: alpha, epsilon: epsilon, centered: centered, momentum: momentum,
            gradient_scale: gradientScale, regularization_scale: regularizationScale, clip_gradients: clip.clips,
            clip_gradients_min: clip.min, clip_gradients_max: clip.max, regularization_func: regularizationFunction)
        return body(&fields)
    }
}

extension BNNS.SGDMomentumOptimizer: DescribedOptimizer {
    fileprivate func withFields<Result>(_ body: (UnsafeRawPointer) -> Result) -> Result {
        if clipping.isChosen {
            let clip = clipping.fields
            var fields = BNNSOptimizerSGDMomentumWithClippingFields(
                learning_rate: learningRate, momentum: momentum, gradient_scale: gradientScale,
                regularization_scale: regularizationScale, nesterov: usesNesterovMomentum,
                regularization_func: regularizationFunction, sgd_momentum_variant: sgdMomentumVariant,
                clipping_func: clip.function, clip_gradients_min: clip.min, clip_gradients_max: clip.max,
                clip_gradients_max_norm: clip.maxNorm, clip_gradients_use_norm: clip.useNorm)
            return body(&fields)
        }
        let clip = clipping.simpleFields
        var fields = BNNSOptimizerSGDMomentumFields(
            learning_rate: learningRate, momentum: momentum, gradient_scale: gradientScale,
            regularization_scale: regularizationScale, clip_gradients: clip.clips, clip_gradients_min: clip.min,
            clip_gradients_max: clip.max, nesterov: usesNesterovMomentum, regularization_func: regularizationFunction,
            sgd_momentum_variant: sgdMomentumVariant)
        return body(&fields)
    }
}
