"""What report.py and chart.py have in common, and the parts of a chart."""
