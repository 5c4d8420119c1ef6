//! Which classes of a release could hold a person.

use crate::columnar::Cover;

/// The published boxes of a release: for every code of every column, the classes that it fits.
#[derive(Debug, Default)]
pub(super) struct FitIndex {
    words: usize,
    /// By column: for every code, as many words of one bit a class.
    columns: Vec<Vec<u64>>,
}

impl FitIndex {
    /// Bytes of an index.
    pub(super) fn bytes(codes: &[u32], classes: usize) -> usize {
        let codes: usize = codes.iter().map(|codes| *codes as usize).sum();
        codes * classes.div_ceil(64) * size_of::<u64>()
    }

    /// The index over the boxes of some classes, whose numbers are below `classes`.
    pub(super) fn new(codes: &[u32], classes: usize, boxes: &[(u32, Vec<Cover>)]) -> Self {
        let words = classes.div_ceil(64);
        let empty = |codes: &u32| vec![0u64; *codes as usize * words];
        let mut columns: Vec<Vec<u64>> = codes.iter().map(empty).collect();
        for (class, covers) in boxes {
            let (word, bit) = (*class as usize / 64, 1 << (class % 64));
            for (column, cover) in columns.iter_mut().zip(covers) {
                for code in cover.iter().flat_map(|(first, last)| *first..=*last) {
                    column[code as usize * words + word] |= bit;
                }
            }
        }
        Self { words, columns }
    }

    /// The classes that a person with these codes fits, one bit each.
    pub(super) fn fitting(&self, codes: &[u32], found: &mut Vec<u64>) {
        found.clear();
        found.resize(self.words, u64::MAX);
        for (column, code) in self.columns.iter().zip(codes) {
            let start = *code as usize * self.words;
            let of_code = &column[start..start + self.words];
            found.iter_mut().zip(of_code).for_each(|(found, fits)| *found &= fits);
        }
    }
}

/// The numbers of the bits that are set.
pub(super) fn set_bits(words: &[u64], numbers: &mut Vec<u32>) {
    numbers.clear();
    for (word, bits) in words.iter().enumerate() {
        let mut bits = *bits;
        while bits != 0 {
            numbers.push(word as u32 * 64 + bits.trailing_zeros());
            bits &= bits - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_fits_the_boxes_around_all_of_their_codes() {
        let cover = |ranges: &[(u32, u32)]| -> Cover { ranges.iter().copied().collect() };
        let boxes = [
            (0, vec![cover(&[(0, 1)]), cover(&[(0, 0)])]),
            (70, vec![cover(&[(0, 0), (2, 2)]), cover(&[(0, 1)])]),
            (3, vec![cover(&[(0, 2)]), cover(&[])]),
        ];
        let index = FitIndex::new(&[3, 2], 71, &boxes);
        let (mut words, mut numbers) = (Vec::new(), Vec::new());
        for (codes, expected) in [
            ([0, 0], vec![0, 70]),
            ([1, 0], vec![0]),
            ([2, 0], vec![70]),
            ([2, 1], vec![70]),
            ([1, 1], vec![]),
        ] {
            index.fitting(&codes, &mut words);
            set_bits(&words, &mut numbers);
            assert_eq!(numbers, expected, "{codes:?}");
        }
        assert_eq!(FitIndex::bytes(&[3, 2], 71), 5 * 2 * 8);
    }
}
