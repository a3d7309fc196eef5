# A fully connected layer with a ReLU, forward and backward.
#
#     julia layer.jl "$(openbnns c-flags --prefix)/lib/libopenbnns.so"
#
# The structs are those of openbnns/bnns.h, written by hand, as a program would that uses a few functions.

const library = ARGS[1]

const VECTOR, ROW_MAJOR_MATRIX, FLOAT32, RECTIFIED_LINEAR = 0x10000, 0x20000, 0x10020, 1

struct NDArrayDescriptor
    flags::UInt32
    layout::UInt32
    size::NTuple{8,Csize_t}
    stride::NTuple{8,Csize_t}
    data::Ptr{Cvoid}
    data_type::UInt32
    table_data::Ptr{Cvoid}
    table_data_type::UInt32
    data_scale::Cfloat
    data_bias::Cfloat
end

struct Activation
    f::UInt32
    alpha::Cfloat
    beta::Cfloat
    iscale::Int32
    ioffset::Int32
    ishift::Int32
    iscale_per_channel::Ptr{Int32}
    ioffset_per_channel::Ptr{Int32}
    ishift_per_channel::Ptr{Int32}
end

struct LayerParametersFullyConnected
    i_desc::NDArrayDescriptor
    w_desc::NDArrayDescriptor
    o_desc::NDArrayDescriptor
    bias::NDArrayDescriptor
    activation::Activation
end

"A tensor of these sizes; its memory must be kept alive by the caller."
function tensor(layout, sizes, data = C_NULL)
    size = ntuple(k -> k <= length(sizes) ? Csize_t(sizes[k]) : Csize_t(0), 8)
    stride = ntuple(k -> Csize_t(0), 8)
    NDArrayDescriptor(0, layout, size, stride, data, FLOAT32, C_NULL, 0, 1, 0)
end

last_error() = unsafe_string(ccall((:openbnns_last_error, library), Cstring, ()))

function check(status, what)
    status == 0 || error("$what: $(last_error())")
end

function main()
    inputs, outputs = 3, 2
    weights = Cfloat[1, 2, 3, -1, 0, 1]  # by rows: one for each output
    x, y, dy = Cfloat[1, 1, 1], zeros(Cfloat, outputs), Cfloat[1, 1]
    dx, dw = zeros(Cfloat, inputs), zeros(Cfloat, inputs * outputs)
    GC.@preserve weights x y dx dw dy begin
        layer = Ref(LayerParametersFullyConnected(
            tensor(VECTOR, [inputs]), tensor(ROW_MAJOR_MATRIX, [inputs, outputs], pointer(weights)),
            tensor(VECTOR, [outputs]), tensor(VECTOR, [outputs]),
            Activation(RECTIFIED_LINEAR, 0, 0, 1, 0, 0, C_NULL, C_NULL, C_NULL)))
        filter = ccall((:BNNSFilterCreateLayerFullyConnected, library), Ptr{Cvoid}, (Ptr{Cvoid}, Ptr{Cvoid}), layer, C_NULL)
        filter == C_NULL && error("creation: $(last_error())")
        check(ccall((:BNNSFilterApply, library), Cint, (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}), filter, x, y), "forward")
        in_delta = Ref(tensor(VECTOR, [inputs], pointer(dx)))
        out_delta = Ref(tensor(VECTOR, [outputs], pointer(dy)))
        weights_delta = Ref(tensor(ROW_MAJOR_MATRIX, [inputs, outputs], pointer(dw)))
        check(ccall((:BNNSFilterApplyBackwardBatch, library), Cint,
                    (Ptr{Cvoid}, Csize_t, Ptr{Cvoid}, Csize_t, Ptr{Cvoid}, Csize_t, Ptr{Cvoid}, Csize_t, Ptr{Cvoid}, Csize_t,
                     Ptr{Cvoid}, Ptr{Cvoid}),
                    filter, 1, x, inputs, in_delta, inputs, y, outputs, out_delta, outputs, weights_delta, C_NULL), "backward")
        @assert ccall((:BNNSFilterApply, library), Cint, (Ptr{Cvoid}, Ptr{Cvoid}, Ptr{Cvoid}), filter, x, C_NULL) == -1
        @assert occursin("out is NULL", last_error())
        ccall((:BNNSFilterDestroy, library), Cvoid, (Ptr{Cvoid},), filter)
    end
    @assert y == [6, 0] && dx == [1, 2, 3] && dw == [1, 1, 1, 0, 0, 0]
    println("$y $dx $dw all numbers are right")
end

main()
