//! Calls each form of each kernel by name and compares it with the definition.

pub(super) mod horizontal;
pub(super) mod vertical;

use multiversion::{multiversion, target::match_target};

use crate::resize::{
    Pixel,
    kernel_forms::not_run,
    triangle::{
        BLOCK,
        dot_product::{self, DotProduct},
        prefix_sum::{self, Block, SegmentRows},
    },
};

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The form is within its bound.
    Compared,
    /// The kernel does not accept the axis.
    AxisRefused,
    /// The CPU lacks an instruction of the form.
    MissingFeatures,
}

// Each function runs one form and returns `true`, or returns `false` if the CPU cannot run it.

pub(super) fn prefix_portable(
    rows: &SegmentRows<'_>,
    partial: &mut [Block],
    out: &mut [i16],
) -> bool {
    prefix_sum::portable(rows, partial, out);
    true
}

#[multiversion(targets("x86_64+avx512f+avx512bw"))]
pub(super) fn prefix_avx512(
    rows: &SegmentRows<'_>,
    partial: &mut [Block],
    out: &mut [i16],
) -> bool {
    match_target! {
        "x86_64+avx512f+avx512bw" => {
            prefix_sum::avx512::weigh(rows, partial, out);
            true
        },
        _ => not_run((rows, partial, out)),
    }
}

pub(super) fn dot_portable(row: &[i16], windows: &DotProduct, out: &mut [[Pixel; BLOCK]]) -> bool {
    dot_product::portable(row, windows, out);
    true
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vbmi+avx512vnni"))]
pub(super) fn dot_avx512(row: &[i16], windows: &DotProduct, out: &mut [[Pixel; BLOCK]]) -> bool {
    match_target! {
        "x86_64+avx512f+avx512bw+avx512vbmi+avx512vnni" => {
            dot_product::avx512::weigh(row, windows, out);
            true
        },
        _ => not_run((row, windows, out)),
    }
}
