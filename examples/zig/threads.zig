//! Four threads that share one filter, and have one each.
//!
//!     prefix="$(openbnns c-flags --prefix)"
//!     zig translate-c -lc -I"$prefix/include" "$prefix/include/openbnns/bnns.h" > bnns.zig
//!     zig build-exe -lc --dep bnns -Mroot=threads.zig -Mbnns=bnns.zig -L"$prefix/lib" -lopenbnns -rpath "$prefix/lib" \
//!         -femit-bin=threads && ./threads
//!
//! Threads need no preparation: calls may come from any of them, and each has a message of its own.

const std = @import("std");
const bnns = @import("bnns");

const width = 8;
const threads = 4;
const repeats = 200;

fn vector(count: usize, data: ?*anyopaque) bnns.BNNSNDArrayDescriptor {
    var d = std.mem.zeroes(bnns.BNNSNDArrayDescriptor);
    d.layout = bnns.BNNSDataLayoutVector;
    d.size[0] = count;
    d.data = data;
    d.data_type = bnns.BNNSDataTypeFloat32;
    return d;
}

fn matrix(columns: usize, rows: usize, data: ?*anyopaque) bnns.BNNSNDArrayDescriptor {
    var d = vector(columns, data);
    d.layout = bnns.BNNSDataLayoutRowMajorMatrix;
    d.size[1] = rows;
    return d;
}

/// A fully connected layer of `inputs` and `width` outputs, with copies of the weights.
fn create(inputs: usize, weights: *[width * width]f32) bnns.BNNSFilter {
    var layer = std.mem.zeroes(bnns.BNNSLayerParametersFullyConnected);
    layer.i_desc = vector(inputs, null);
    layer.w_desc = matrix(width, width, weights);
    layer.o_desc = vector(width, null);
    return bnns.BNNSFilterCreateLayerFullyConnected(&layer, null);
}

/// Applies a filter with weights W[o][i] = factor * o to ones, forward and backward; whether all numbers are right.
fn works(filter: bnns.BNNSFilter, factor: f32) bool {
    var x: [width]f32 = @splat(1);
    var y: [width]f32 = @splat(-1);
    var dx: [width]f32 = @splat(-1);
    var dy: [width]f32 = @splat(1);
    var dw: [width * width]f32 = @splat(-1);
    var in_delta = vector(width, &dx);
    var out_delta = vector(width, &dy);
    var weights_delta = matrix(width, width, &dw);
    if (bnns.BNNSFilterApply(filter, &x, &y) != 0) return false;
    const status = bnns.BNNSFilterApplyBackwardBatch(filter, 1, &x, width, &in_delta, width, null, 0, &out_delta, width, &weights_delta, null);
    if (status != 0) return false;
    for (y, 0..) |value, o| {
        if (value != factor * width * @as(f32, @floatFromInt(o))) return false;
    }
    for (dx) |value| {
        if (value != factor * width * (width - 1) / 2) return false;
    }
    for (dw) |value| {
        if (value != 1) return false;
    }
    return true;
}

fn weightsTimes(factor: f32) [width * width]f32 {
    var weights: [width * width]f32 = undefined;
    for (&weights, 0..) |*weight, i| weight.* = factor * @as(f32, @floatFromInt(i / width));
    return weights;
}

/// What one thread does; `problem` stays null if all is well.
fn work(number: usize, shared: bnns.BNNSFilter, problem: *?[]const u8) void {
    const factor: f32 = @floatFromInt(number + 1);
    var weights = weightsTimes(factor);
    var expected: [32]u8 = undefined;
    const own_message = std.fmt.bufPrint(&expected, "{d} elements", .{width + 1 + number}) catch unreachable;
    for (0..repeats) |_| {
        if (!works(shared, 1)) {
            problem.* = "the shared filter gave wrong numbers";
            return;
        }
        const own = create(width, &weights);
        defer bnns.BNNSFilterDestroy(own);
        if (own == null or !works(own, factor)) {
            problem.* = "a filter of its own gave wrong numbers";
            return;
        }
        if (create(width + 1 + number, &weights) != null) {
            problem.* = "a layer was made from sizes that do not fit";
            return;
        }
        const message = std.mem.span(bnns.openbnns_last_error());
        if (std.mem.indexOf(u8, message, own_message) == null) {
            problem.* = "the message is not that of this thread";
            return;
        }
    }
}

pub fn main() u8 {
    var weights = weightsTimes(1);
    const shared = create(width, &weights) orelse {
        std.debug.print("creation failed: {s}\n", .{bnns.openbnns_last_error()});
        return 1;
    };
    defer bnns.BNNSFilterDestroy(shared);
    var running: [threads]std.Thread = undefined;
    var problems: [threads]?[]const u8 = @splat(null);
    for (&running, 0..) |*thread, number| {
        thread.* = std.Thread.spawn(.{}, work, .{ number, shared, &problems[number] }) catch return 1;
    }
    for (running) |thread| thread.join();
    for (problems, 0..) |problem, number| {
        if (problem) |text| {
            std.debug.print("thread {d}: {s}\n", .{ number, text });
            return 1;
        }
    }
    std.debug.print("{d} threads, {d} rounds each: all numbers are right\n", .{ threads, repeats });
    return 0;
}
