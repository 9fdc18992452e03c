//! The border rule of all filters: reflection without repeating the edge, OpenCV's `BORDER_REFLECT_101`.

/// Returns the index inside `0..length` that stands for `index`: −1 is 1, and `length` is `length − 2`, repeatedly. A
/// single sample is its own reflection.
pub fn reflect_101(index: i64, length: u32) -> usize {
    let last = i64::from(length) - 1;
    let folded = index.rem_euclid((2 * last).max(1));
    folded.min(2 * last - folded) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_reflected_at_both_ends() {
        let line = |length: u32| -> Vec<usize> {
            (-4..7).map(|index| reflect_101(index, length)).collect()
        };
        assert_eq!(line(3), [0, 1, 2, 1, 0, 1, 2, 1, 0, 1, 2]);
        assert_eq!(line(4), [2, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0]);
        assert_eq!(line(2), [0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]);
        assert_eq!(line(1), [0; 11]);
    }
}
