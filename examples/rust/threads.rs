//! Four threads that share one filter, and have one each.
//!
//!     lib="$(openbnns c-flags --prefix)/lib"
//!     rustc -O threads.rs -L "$lib" -C link-arg=-Wl,-rpath,"$lib" && ./threads
//!
//! The declarations are written by hand, as a program would that uses a few functions; bindgen makes all of them from
//! `openbnns/bnns.h`. Threads need no preparation: calls may come from any of them, and each has a message of its own.

use std::ffi::{c_char, c_int, c_void, CStr};
use std::ptr;

/// What this program uses of `openbnns/bnns.h`.
mod bnns {
    use super::{c_char, c_int, c_void};

    pub const VECTOR: u32 = 0x10000;
    pub const ROW_MAJOR_MATRIX: u32 = 0x20000;
    pub const FLOAT32: u32 = 0x10020;

    #[repr(C)]
    #[derive(Clone, Copy)]
    pub struct NDArrayDescriptor {
        pub flags: u32,
        pub layout: u32,
        pub size: [usize; 8],
        pub stride: [usize; 8],
        pub data: *mut c_void,
        pub data_type: u32,
        pub table_data: *mut c_void,
        pub table_data_type: u32,
        pub data_scale: f32,
        pub data_bias: f32,
    }

    #[repr(C)]
    pub struct Activation {
        pub function: u32,
        pub alpha: f32,
        pub beta: f32,
        pub iscale: i32,
        pub ioffset: i32,
        pub ishift: i32,
        pub iscale_per_channel: *const i32,
        pub ioffset_per_channel: *const i32,
        pub ishift_per_channel: *const i32,
    }

    #[repr(C)]
    pub struct LayerParametersFullyConnected {
        pub i_desc: NDArrayDescriptor,
        pub w_desc: NDArrayDescriptor,
        pub o_desc: NDArrayDescriptor,
        pub bias: NDArrayDescriptor,
        pub activation: Activation,
    }

    #[link(name = "openbnns")]
    extern "C" {
        pub fn BNNSFilterCreateLayerFullyConnected(
            layer_params: *const LayerParametersFullyConnected,
            filter_params: *const c_void,
        ) -> *mut c_void;
        pub fn BNNSFilterApply(filter: *mut c_void, input: *const c_void, output: *mut c_void) -> c_int;
        pub fn BNNSFilterApplyBackwardBatch(
            filter: *mut c_void,
            batch_size: usize,
            input: *const c_void,
            in_stride: usize,
            in_delta: *mut NDArrayDescriptor,
            in_delta_stride: usize,
            output: *const c_void,
            out_stride: usize,
            out_delta: *const NDArrayDescriptor,
            out_delta_stride: usize,
            weights_delta: *mut NDArrayDescriptor,
            bias_delta: *mut NDArrayDescriptor,
        ) -> c_int;
        pub fn BNNSFilterDestroy(filter: *mut c_void);
        pub fn openbnns_last_error() -> *const c_char;
    }
}

/// Why the latest call of this thread failed.
fn last_error() -> String {
    let text = unsafe { bnns::openbnns_last_error() };
    if text.is_null() {
        return String::new();
    }
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

fn described(layout: u32, size: &[usize], data: *mut f32) -> bnns::NDArrayDescriptor {
    let mut all = [0; 8];
    all[..size.len()].copy_from_slice(size);
    bnns::NDArrayDescriptor {
        flags: 0,
        layout,
        size: all,
        stride: [0; 8],
        data: data.cast(),
        data_type: bnns::FLOAT32,
        table_data: ptr::null_mut(),
        table_data_type: 0,
        data_scale: 1.0,
        data_bias: 0.0,
    }
}

const WIDTH: usize = 8;
const THREADS: usize = 4;
const ROUNDS: usize = 200;

/// A fully connected layer y = W x that lives as long as this value.
struct FullyConnected(*mut c_void);

// A filter without state between calls may be applied from several threads at once.
unsafe impl Sync for FullyConnected {}

impl FullyConnected {
    /// The weights are `[WIDTH][WIDTH]` and copied; `inputs` is WIDTH for a layer that makes sense.
    fn new(inputs: usize, weights: &mut [f32]) -> Result<Self, String> {
        let layer = bnns::LayerParametersFullyConnected {
            i_desc: described(bnns::VECTOR, &[inputs], ptr::null_mut()),
            w_desc: described(bnns::ROW_MAJOR_MATRIX, &[WIDTH, WIDTH], weights.as_mut_ptr()),
            o_desc: described(bnns::VECTOR, &[WIDTH], ptr::null_mut()),
            bias: described(bnns::VECTOR, &[WIDTH], ptr::null_mut()),
            activation: unsafe { std::mem::zeroed() },
        };
        let filter = unsafe { bnns::BNNSFilterCreateLayerFullyConnected(&layer, ptr::null()) };
        if filter.is_null() { Err(last_error()) } else { Ok(FullyConnected(filter)) }
    }

    fn apply(&self, x: &[f32; WIDTH]) -> Result<[f32; WIDTH], String> {
        let mut y = [0.0; WIDTH];
        let status = unsafe { bnns::BNNSFilterApply(self.0, x.as_ptr().cast(), y.as_mut_ptr().cast()) };
        if status == 0 { Ok(y) } else { Err(last_error()) }
    }

    /// The gradients of x and of the weights.
    fn apply_backward(
        &self,
        x: &[f32; WIDTH],
        dy: &mut [f32; WIDTH],
    ) -> Result<([f32; WIDTH], [f32; WIDTH * WIDTH]), String> {
        let (mut dx, mut dw) = ([0.0; WIDTH], [0.0; WIDTH * WIDTH]);
        let mut in_delta = described(bnns::VECTOR, &[WIDTH], dx.as_mut_ptr());
        let out_delta = described(bnns::VECTOR, &[WIDTH], dy.as_mut_ptr());
        let mut weights_delta = described(bnns::ROW_MAJOR_MATRIX, &[WIDTH, WIDTH], dw.as_mut_ptr());
        let status = unsafe {
            bnns::BNNSFilterApplyBackwardBatch(
                self.0, 1, x.as_ptr().cast(), WIDTH, &mut in_delta, WIDTH, ptr::null(), 0, &out_delta, WIDTH,
                &mut weights_delta, ptr::null_mut(),
            )
        };
        if status == 0 { Ok((dx, dw)) } else { Err(last_error()) }
    }
}

impl Drop for FullyConnected {
    fn drop(&mut self) {
        unsafe { bnns::BNNSFilterDestroy(self.0) }
    }
}

/// W[o][i] = factor * o.
fn weights(factor: f32) -> Vec<f32> {
    (0..WIDTH * WIDTH).map(|i| factor * (i / WIDTH) as f32).collect()
}

fn check(layer: &FullyConnected, factor: f32) -> Result<(), String> {
    let x = [1.0; WIDTH];
    let y = layer.apply(&x)?;
    let (dx, dw) = layer.apply_backward(&x, &mut [1.0; WIDTH])?;
    let right = (0..WIDTH).all(|o| y[o] == factor * (WIDTH * o) as f32)
        && dx.iter().all(|&value| value == factor * (WIDTH * (WIDTH - 1) / 2) as f32)
        && dw.iter().all(|&value| value == 1.0);
    if right { Ok(()) } else { Err(format!("wrong numbers: {y:?}, {dx:?}, {dw:?}")) }
}

/// What one thread does.
fn work(number: usize, shared: &FullyConnected) -> Result<(), String> {
    let factor = (number + 1) as f32;
    for _ in 0..ROUNDS {
        check(shared, 1.0)?;
        check(&FullyConnected::new(WIDTH, &mut weights(factor))?, factor)?;
        match FullyConnected::new(WIDTH + 1 + number, &mut weights(factor)) {
            Ok(_) => return Err("a layer was made from sizes that do not fit".into()),
            Err(text) if text.contains(&format!("{} elements", WIDTH + 1 + number)) => (),
            Err(text) => return Err(format!("the message of another thread: {text}")),
        }
    }
    Ok(())
}

fn main() -> Result<(), String> {
    let shared = FullyConnected::new(WIDTH, &mut weights(1.0))?;
    let shared = &shared;
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || work(number, shared))).collect();
        running.into_iter().try_for_each(|thread| thread.join().expect("a thread ended early"))
    })?;
    println!("{THREADS} threads, {ROUNDS} rounds each: all numbers are right");
    Ok(())
}
