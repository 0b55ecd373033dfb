"""What a lesson is: its files, its cells, its values and how two values are compared. This package runs nothing."""
