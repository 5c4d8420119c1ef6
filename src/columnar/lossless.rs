//! Which values survive a change of type.

use arrow::datatypes::DataType;

use super::cohorts::without_dictionary;

/// Whether every value that can be cast from one type to another keeps its meaning. Casts that do not fit are errors.
pub fn casts_without_loss(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Decimal32, Decimal64, Decimal128, Decimal256, Float16, Float32,
        Float64, LargeBinary, LargeUtf8, Struct, Timestamp, Utf8, Utf8View,
    };
    let (from, to) = (without_dictionary(from), without_dictionary(to));
    let scale = |data_type: &DataType| match data_type {
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => {
            Some(*scale)
        }
        _ => None,
    };
    match (from, to) {
        (from, to) if from == to => true,
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (Float16, Float32 | Float64) | (Float32, Float64) => true,
        (Timestamp(from_unit, from_zone), Timestamp(to_unit, to_zone)) => {
            from_zone == to_zone && to_unit >= from_unit
        }
        (Struct(from), Struct(to)) => {
            let pairs = || from.iter().zip(to);
            from.len() == to.len()
                && pairs().all(|(from, to)| {
                    from.name() == to.name() && casts_without_loss(from.data_type(), to.data_type())
                })
        }
        (from, to) if from.is_integer() && to.is_integer() => true,
        (from, to) => scale(from).is_some() && scale(from) == scale(to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts_keep_their_values_in_other_encodings_only() {
        use DataType::*;
        let dictionary = Dictionary(Box::new(Int32), Box::new(Utf8));
        for (from, to) in [
            (&Utf8View, &dictionary),
            (&dictionary, &LargeUtf8),
            (&Int64, &Int8),
            (&Float32, &Float64),
            (&Decimal128(20, 2), &Decimal64(8, 2)),
        ] {
            assert!(casts_without_loss(from, to), "{from} to {to}");
        }
        for (from, to) in [
            (&Int64, &Utf8),
            (&Utf8, &Int64),
            (&Float64, &Float32),
            (&Float64, &Int64),
            (&Date32, &Utf8),
            (&Decimal128(20, 2), &Decimal128(20, 3)),
        ] {
            assert!(!casts_without_loss(from, to), "{from} to {to}");
        }
    }
}
