"""The sample class: submissions such as real ones come, made from the exercises so that they never fall behind them."""
