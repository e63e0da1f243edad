"""The recommendation on cases whose answer is known."""

import re

import numpy as np
import pytest
from conftest_experiments import noisy, write_comparison

from calmix.experiments.comparison import gather, report_data
