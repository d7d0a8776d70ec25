"""The Python array API standard, version 2024.12, for tensors (https://data-apis.org/array-api/2024.12/).

``x.__array_namespace__()`` gives this module. Everything of the standard is here but complex numbers and
Fourier transforms. Arrays are Tensors; devices are their names. What the standard leaves open is as for
Tensors: an integer array and a float one promote as in NumPy, the quotient of integers is float32.
"""

from __future__ import annotations

import sys

from dawdle.array_api import (
    constants,
    creation,
    dtypes,
    elementwise,
    linalg,
    manipulation,
    products,
    searching,
    statistical,
)
from dawdle.array_api.constants import *  # noqa: F403
from dawdle.array_api.creation import *  # noqa: F403
from dawdle.array_api.dtypes import *  # noqa: F403
from dawdle.array_api.elementwise import *  # noqa: F403
from dawdle.array_api.info import __array_namespace_info__
from dawdle.array_api.manipulation import *  # noqa: F403
from dawdle.array_api.products import *  # noqa: F403
from dawdle.array_api.searching import *  # noqa: F403
from dawdle.array_api.statistical import *  # noqa: F403
from dawdle.tensor.interop import NAMESPACES

__all__ = ["__array_api_version__", "__array_namespace_info__", "linalg"]
__all__ += constants.__all__ + creation.__all__ + dtypes.__all__ + elementwise.__all__ + manipulation.__all__
__all__ += products.__all__ + searching.__all__ + statistical.__all__

__array_api_version__ = "2024.12"
NAMESPACES[__array_api_version__] = sys.modules[__name__]
