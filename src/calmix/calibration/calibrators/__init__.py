"""Post-hoc calibrators: scikit-learn estimators on logits.

auto                    The calibrator that the rows support, chosen by cross-validation
biased                  Temperature scaling with a bias for every class
calibrated_predictions  A fitted calibrator applied to predictions: its classes are matched by name
calibrator              What every calibrator shares: scikit-learn's contract on logits, the registry
folds                   The folds of cross-validation: which rows are left out together
isotonic                Isotonic calibration: a free, never falling curve from score to probability
newton                  Damped Newton for smooth convex objectives of several parameters
platt                   Platt scaling of two-class logits
shrunk                  Shrunk scaling: one temperature and a bias of every class, held close to no change
structured              Structured scaling: a full matrix and a bias, held close to temperature scaling
temperature             Temperature scaling: one number that all logits are divided by
vector                  Vector scaling: a scale and a bias for every class
"""
