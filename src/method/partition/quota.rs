//! How many rows a cut takes to the left.

use super::{Context, Cut, Variant};

/// The left side of a rounded cut of `n ≥ 2k` rows, n = αk + β: ⌈α/2⌉·k rows and a part of the remainder β.
///
/// The paper halves the remainder. Where α is odd, the smaller side then has more of it for each of its classes; so it
/// is shared in proportion to the classes of the sides, to the last row.
pub(super) fn rounded(n: usize, k: usize, variant: Variant) -> usize {
    let (alpha, beta) = (n / k, n % k);
    let classes = alpha.div_ceil(2);
    let shared = match variant {
        Variant::Best => {
            let (each, some) = (beta / alpha, beta % alpha);
            classes * each + (some * classes).div_ceil(alpha)
        }
        Variant::Paper => beta.div_ceil(2),
    };
    classes * k + shared
}

impl Context<'_> {
    /// Rows that go left when a group of `n ≥ 2k` is cut; for strict cuts the middle to aim at.
    fn left_quota(&self, n: usize) -> usize {
        match self.options.cut {
            Cut::Rounded => rounded(n, self.k(), self.options.variant),
            Cut::Strict | Cut::Relaxed => n.div_ceil(2),
        }
    }

    /// Rows that may go left, in the order in which they are tried.
    ///
    /// Only the bound on one person's rows leads away from the middle. If sensitive values did, every cut would
    /// reveal more about them.
    pub(super) fn left_quotas(&self, n: usize) -> Vec<usize> {
        let mut quotas = vec![self.left_quota(n)];
        if self.bounds_persons {
            let smaller = (2..usize::BITS).map(|halvings| n >> halvings);
            let whole =
                smaller.take_while(|rows| *rows >= self.k()).map(|rows| rows - rows % self.k());
            quotas.extend(whole.flat_map(|rows| [n - rows, rows]));
        }
        quotas
    }
}
