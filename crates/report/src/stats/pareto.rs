//! The Pareto front of cost and score.

/// The cost and score of an agent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Lower is better.
    pub cost: f64,
    /// Higher is better.
    pub score: f64,
}

/// The indexes of the Pareto-optimal points, from the cheapest to the most expensive. A point is
/// dominated by one that is better in one dimension and not worse in the other. Points without cost
/// or score must be left out, or be NaN.
pub fn pareto_front(points: &[Point]) -> Vec<usize> {
    let known = |index: &usize| points[*index].cost.is_finite() && points[*index].score.is_finite();
    let mut order: Vec<usize> = (0..points.len()).filter(known).collect();
    order.sort_by(|one, other| {
        let (one, other) = (points[*one], points[*other]);
        let by_cost = one.cost.total_cmp(&other.cost);
        by_cost.then_with(|| other.score.total_cmp(&one.score))
    });
    let mut front: Vec<usize> = Vec::new();
    for index in order {
        let beaten = front.last().is_some_and(|last| {
            let (best, point) = (points[*last], points[index]);
            point.score <= best.score && point != best
        });
        if !beaten {
            front.push(index);
        }
    }
    front
}

#[cfg(test)]
mod tests {
    use super::*;

    fn front(points: &[(f64, f64)]) -> Vec<usize> {
        let points: Vec<Point> = points
            .iter()
            .map(|(cost, score)| Point {
                cost: *cost,
                score: *score,
            })
            .collect();
        pareto_front(&points)
    }

    #[test]
    fn dominated_points_are_not_on_the_front() {
        assert_eq!(front(&[(3.0, 0.9), (1.0, 0.5), (2.0, 0.4)]), [1, 0]);
        // Same cost but worse; same score but more expensive.
        assert_eq!(front(&[(1.0, 0.5), (1.0, 0.4), (2.0, 0.5)]), [0]);
    }

    #[test]
    fn equal_points_are_on_the_front_and_unknown_ones_are_not() {
        assert_eq!(front(&[(1.0, 0.5), (1.0, 0.5)]), [0, 1]);
        assert_eq!(front(&[(f64::NAN, 1.0), (1.0, 0.1)]), [1]);
        assert!(front(&[]).is_empty());
    }

    proptest::proptest! {
        #[test]
        fn the_front_is_what_a_comparison_of_all_pairs_finds(
            points in proptest::collection::vec((0_u8..6, 0_u8..6), 0..20)
        ) {
            let points: Vec<(f64, f64)> =
                points.into_iter().map(|(c, s)| (f64::from(c), f64::from(s))).collect();
            let beats = |a: (f64, f64), b: (f64, f64)| a.0 <= b.0 && a.1 >= b.1 && a != b;
            let expected: Vec<usize> = (0..points.len())
                .filter(|i| !points.iter().any(|other| beats(*other, points[*i])))
                .collect();
            let mut found = front(&points);
            found.sort_unstable();
            proptest::prop_assert_eq!(found, expected);
        }
    }
}
